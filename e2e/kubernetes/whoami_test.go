package kubernetes

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
)

// whoami is the application behind the gateway: it listens where its pod would, and counts what reaches it.
type whoami struct{ served atomic.Int64 }

func (w *whoami) ServeHTTP(http.ResponseWriter, *http.Request) { w.served.Add(1) }

// startWhoami starts the application, and tells the cluster where it is, as the controller of endpoints would.
func startWhoami(c *cluster, address string) (*whoami, error) {
	port := "8081" // pods share a network here, and 8080 is taken by Traefik
	listener, err := net.Listen("tcp", net.JoinHostPort(address, port))
	if err != nil {
		return nil, err
	}
	w := &whoami{}
	go http.Serve(listener, w)

	slice := fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: whoami-pods, namespace: example, labels: {kubernetes.io/service-name: whoami}}
addressType: IPv4
ports: [{name: http, port: %s, protocol: TCP}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
`, port, address)
	_, err = c.kubectl(slice, "apply", "-f", "-")
	return w, err
}
