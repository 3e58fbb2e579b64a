// Package kubernetes tests Sluice on Kubernetes: the manifests in examples/kubernetes as a user applies them, with kubectl, to a
// real API server, and the real Traefik as a kubelet would run it: with the Deployment's own arguments, volumes, user and
// service account. There is no kubelet, and no container is pulled; cluster_test.go plays the controllers, pod_test.go
// the kubelet.
//
// All of it happens in a network of its own (isolation_test.go), where pods have the ports and addresses that they would have.
package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// site is what most tests share, since it takes some seconds to raise: see raised. They change it, so none of them runs
// in parallel, each comes as a client with an address of its own, and each leaves the Middlewares as it found them.
var site struct {
	*cluster
	traefik *pod
	whoami  *whoami
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	if !isolated() {
		if err := prepare(); err != nil {
			return 0, err
		}
		return isolate()
	}
	if err := errors.Join(raiseWorkspace(), raiseNetwork()); err != nil {
		return 0, err
	}
	code := m.Run()
	if site.traefik != nil && code != 0 {
		fmt.Fprintf(os.Stderr, "Traefik's log:\n%s\n", site.traefik.log())
	}
	site.traefik.stop()
	site.stop()
	return code, nil
}

// raised raises the site for the first test that needs it, and fails this one and all others if that does not succeed.
func raised(t *testing.T) {
	t.Helper()
	require.NoError(t, raiseOnce())
}

var raiseOnce = sync.OnceValue(raise)

// raise brings up the site as a user does: a cluster, its custom resources, `kubectl apply -k .`.
func raise() (err error) {
	if site.cluster, err = startCluster(workspace); err != nil {
		return err
	}
	for _, step := range [][]string{
		{"apply", "--server-side", "-f", traefikResources()},
		{"apply", "--server-side", "-k", gatewayResources()},
		{"wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"},
		{"apply", "--server-side", "-k", repository()},
		// This is what the controller of certificates does in every namespace.
		{"create", "configmap", "kube-root-ca.crt", "-n", "traefik", "--from-file=ca.crt=" + site.certificate()},
	} {
		if _, err := site.kubectl("", step...); err != nil {
			return err
		}
	}
	if site.whoami, err = startWhoami(site.cluster, whoamiAddress); err != nil {
		return err
	}
	site.traefik, err = startPod(site.cluster, "traefik", "traefik", os.Getenv("TRAEFIK"))
	return err
}
