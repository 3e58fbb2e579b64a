package kubernetes

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// apiServer is where the API server is found by pods: the first address of the service range.
const apiServer = "10.96.0.1"

// cluster is etcd and the API server, with all of its usual admission. Nothing else of Kubernetes runs.
type cluster struct {
	folder          string
	etcd, apiserver *process
}

func startCluster(folder string) (*cluster, error) {
	c := &cluster{folder: folder}
	if err := c.writeFiles(); err != nil {
		return nil, err
	}
	var err error
	c.etcd, err = c.server("etcd",
		"--data-dir="+c.path("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=default=http://127.0.0.1:2380")
	if err != nil {
		return c, err
	}
	c.apiserver, err = c.server("kube-apiserver",
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address=0.0.0.0", "--secure-port=443", "--advertise-address="+nodeAddress,
		"--service-cluster-ip-range="+serviceRange,
		"--cert-dir="+c.path("certificates"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+c.path("key.pem"), "--service-account-signing-key-file="+c.path("key.pem"),
		"--authorization-mode=RBAC", "--token-auth-file="+c.path("tokens.csv"),
		"--audit-policy-file="+c.path("audit.yaml"), "--audit-log-path="+c.path("audit.log"))
	if err != nil {
		return c, err
	}
	return c, c.apiserver.until(2*time.Minute, func() error {
		_, err := c.kubectl("", "get", "--raw", "/readyz")
		return err
	})
}

// kubectl runs kubectl as the cluster's administrator, and returns what it prints.
func (c *cluster) kubectl(stdin string, arguments ...string) (string, error) {
	command := exec.Command(filepath.Join(os.Getenv("KUBERNETES"), "kubectl"), arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.path("kubeconfig"), "KUBECACHEDIR="+c.path("cache"))
	command.Stdin = strings.NewReader(stdin)
	var output, complaint bytes.Buffer
	command.Stdout, command.Stderr = &output, &complaint
	if err := command.Run(); err != nil {
		return output.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(arguments, " "), err, &complaint)
	}
	return output.String(), nil
}

// stop may be called on nil, and on a cluster that has not come up.
func (c *cluster) stop() {
	if c != nil {
		c.apiserver.stop()
		c.etcd.stop()
	}
}

func (c *cluster) path(name string) string { return filepath.Join(c.folder, name) }

func (c *cluster) server(name string, arguments ...string) (*process, error) {
	return start(exec.Command(filepath.Join(os.Getenv("KUBERNETES"), name), arguments...), c.path(name+".log"))
}

// writeFiles writes what the API server and kubectl read: who is who, the key that signs the tokens of service accounts, and
// that whatever Traefik asks for is to be logged.
func (c *cluster) writeFiles() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"key.pem":    string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		"tokens.csv": `administrator,administrator,administrator,"system:masters"` + "\n",
		"audit.yaml": `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, users: ["system:serviceaccount:traefik:traefik"]}
  - {level: None}
`,
		"kubeconfig": fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority: %q}}]
users: [{name: test, user: {token: administrator}}]
`, apiServer, c.certificate()),
	} {
		if err := os.WriteFile(c.path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// auditLog is what the API server has written about Traefik's requests, one JSON object in a line.
func (c *cluster) auditLog() string {
	text, _ := os.ReadFile(c.path("audit.log"))
	return string(text)
}

// certificate is the file by which the API server is recognized. It makes it when it starts.
func (c *cluster) certificate() string { return c.path("certificates/apiserver.crt") }
