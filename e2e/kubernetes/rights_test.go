package kubernetes

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAddress passes the load balancer's address on to the status of Ingresses and Gateways.
func TestAddress(t *testing.T) {
	kubectl(t, "patch", "service", "traefik", "-n", "traefik", "--subresource=status", "--type=merge",
		"-p", `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`)
	for _, query := range [][]string{
		{"get", "ingress", "whoami", "-n", "example", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}"},
		{"get", "gateway", "traefik", "-n", "traefik", "-o", "jsonpath={.status.addresses[0].value}"},
	} {
		waitFor(t, strings.Join(query, " "), func() bool { return kubectl(t, query...) == "192.0.2.7" })
	}
}

// TestRights compares what Traefik has asked of the API server, by its audit log, with what its role allows: nothing was refused,
// and nothing is allowed that it does not use.
func TestRights(t *testing.T) {
	kubectl(t, "apply", "-f", "testdata/other-routes.yaml") // of kinds of which the example has none
	t.Cleanup(func() { kubectl(t, "delete", "--wait=false", "-f", "testdata/other-routes.yaml") })
	for deadline := time.Now().Add(15 * time.Second); !slices.Equal(allowed(t), used(t)) && time.Now().Before(deadline); {
		time.Sleep(time.Second)
	}
	require.Equal(t, allowed(t), used(t))
	require.False(t, logged("forbidden"))
}

// allowed is the rights in the ClusterRole, sorted, such as "watch traefik.io/middlewares".
func allowed(t *testing.T) (rights []string) {
	var role struct {
		Rules []struct{ APIGroups, Resources, Verbs []string }
	}
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "get", "clusterrole", "traefik", "-o", "json")), &role))
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if verb != "list" { // servers of older versions are asked to list before watching
						rights = append(rights, verb+" "+group+"/"+resource)
					}
				}
			}
		}
	}
	slices.Sort(rights)
	return rights
}

// used is the rights that Traefik has used.
func used(t *testing.T) (rights []string) {
	for _, line := range strings.Split(strings.TrimSpace(site.auditLog()), "\n") {
		var event struct {
			Verb, RequestURI string
			ObjectRef        struct{ APIGroup, Resource, Subresource string }
			ResponseStatus   struct{ Code int }
		}
		if json.Unmarshal([]byte(line), &event) != nil {
			continue // the line is being written
		}
		require.NotContains(t, []int{401, 403}, event.ResponseStatus.Code, line)
		resource := event.ObjectRef.APIGroup + "/" + event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		if event.Verb != "list" && event.ObjectRef.Resource != "" {
			rights = append(rights, event.Verb+" "+resource)
		}
	}
	slices.Sort(rights)
	return slices.Compact(rights)
}

// TestUnprivileged holds Traefik's namespace to its security standard, which has admitted Traefik's own pod.
func TestUnprivileged(t *testing.T) {
	raised(t)
	_, err := site.kubectl("", "run", "careless", "-n", "traefik", "--image=traefik", "--dry-run=server",
		`--overrides={"spec":{"serviceAccountName":"traefik"}}`)
	require.ErrorContains(t, err, `violates PodSecurity "restricted`)
}
