package kubernetes

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The hosts of the example's routes.
const (
	ingress      = "ingress.localhost"
	otherIngress = "other.localhost"
	ingressRoute = "ingressroute.localhost"
	httpRoute    = "httproute.localhost"
)

// TestRoutes uses up the limit of each kind of route.
func TestRoutes(t *testing.T) {
	for host, limit := range map[string]int{ingress: 10, otherIngress: 10, httpRoute: 10, ingressRoute: 5} {
		t.Run(host, func(t *testing.T) {
			waitFor(t, host, func() bool { return newClient(t).get(host).status == http.StatusOK })
			c := newClient(t)
			first := c.get(host)
			require.Equal(t, http.StatusOK, first.status)
			require.Equal(t, limit, first.limit())
			require.Equal(t, limit-1, first.remaining())

			served := site.whoami.served.Load()
			passed := int64(0)
			next := c.get(host)
			for ; next.status == http.StatusOK; next = c.get(host) {
				passed++
				require.Less(t, passed, int64(100), "no limit")
			}
			require.GreaterOrEqual(t, passed, int64(limit-1))
			require.Equal(t, served+passed, site.whoami.served.Load(), "what is refused does not reach the application")
			require.Equal(t, http.StatusTooManyRequests, next.status)
			require.Equal(t, limit, next.limit())
			require.Equal(t, 0, next.remaining())
			require.GreaterOrEqual(t, number(next.header, "Retry-After"), 1)
			require.Equal(t, http.StatusOK, newClient(t).get(host).status, "another client has a limit of its own")
		})
	}
}

// TestShared counts the requests to two Ingresses and an HTTPRoute, which all name the same Middleware, together.
func TestShared(t *testing.T) {
	c := newClient(t)
	began := time.Now()
	require.Equal(t, 9, c.get(ingress).remaining())
	for i, host := range []string{otherIngress, httpRoute, ingress} {
		spent := 9 - i - 1
		refilled := int(5*time.Since(began).Seconds()) + 1
		require.Contains(t, numbers(spent, spent+refilled), c.get(host).remaining(), host)
	}
}

// TestKeys counts by API key, whoever sends it.
func TestKeys(t *testing.T) {
	key := fmt.Sprint("key-", time.Now())
	require.Equal(t, 4, newClient(t).get(ingressRoute, "X-Api-Key", key).remaining())
	require.Equal(t, 3, newClient(t).get(ingressRoute, "X-Api-Key", key).remaining())
	require.Equal(t, 4, newClient(t).get(ingressRoute, "X-Api-Key", key+"2").remaining())
}

// TestSecret sends what the Secret holds, which exempts from the limit, and the reference to it, which does not.
func TestSecret(t *testing.T) {
	c := newClient(t)
	require.Equal(t, 9, c.get(ingress, "X-Internal", "urn:k8s:secret:internal:token").remaining())
	for range 20 {
		require.Equal(t, http.StatusOK, c.get(ingress, "X-Internal", "to-be-replaced").status)
	}
	require.GreaterOrEqual(t, c.get(ingress).remaining(), 8, "the exempt requests were not counted")
}

// TestEverybody sends more than a hundred a second from clients that each keep to their own limit.
func TestEverybody(t *testing.T) {
	time.Sleep(time.Second) // after which nobody has used anything up
	c := newClient(t)
	var (
		group           sync.WaitGroup
		mu              sync.Mutex
		passed, refused int
	)
	began := time.Now()
	for connection := range 16 {
		group.Go(func() {
			for i := range 40 {
				status := c.get(ingressRoute, "X-Api-Key", fmt.Sprint(connection, "-", i)).status
				mu.Lock()
				switch status {
				case http.StatusOK:
					passed++
				case http.StatusTooManyRequests:
					refused++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	t.Logf("%d passed, %d refused in %v", passed, refused, took)
	require.Equal(t, 16*40, passed+refused)
	require.GreaterOrEqual(t, passed, 95)
	require.LessOrEqual(t, float64(passed), 100+100*took.Seconds())
	time.Sleep(time.Second) // until everybody has room again
}

// TestEdit changes a limit with kubectl, while the counts stay.
func TestEdit(t *testing.T) {
	edit(t, "per-key", "window: 10s", "window: 1h") // so that no window ends in between
	c := newClient(t)
	key := fmt.Sprint("key-", time.Now())
	waitFor(t, "the longer window", func() bool {
		reset := number(c.get(ingressRoute, "X-Api-Key", fmt.Sprint("key-", time.Now())).header, "X-RateLimit-Reset")
		return time.Until(time.Unix(int64(reset), 0)) > time.Minute
	})
	for range 3 {
		require.Equal(t, http.StatusOK, c.get(ingressRoute, "X-Api-Key", key).status)
	}

	edit(t, "per-key", "requests: 5", "requests: 50")
	waitFor(t, "the higher limit", func() bool {
		return c.get(ingressRoute, "X-Api-Key", fmt.Sprint("key-", time.Now())).limit() == 50
	})
	require.Equal(t, 46, c.get(ingressRoute, "X-Api-Key", key).remaining(), "50 without the three from before, and this one")
}

// TestMistake shows a bad option in Traefik's log, and that it costs only the routes that use it.
func TestMistake(t *testing.T) {
	edit(t, "per-ip", "average:", "avarage:")
	for _, host := range []string{ingress, otherIngress, httpRoute} {
		waitFor(t, host+" to be gone", func() bool { return newClient(t).get(host).status == http.StatusNotFound })
	}
	require.Equal(t, http.StatusOK, newClient(t).get(ingressRoute).status)
	waitFor(t, "the mistake in the log", func() bool { return logged("avarage: there is no such option; did you mean average?") })

	edit(t, "per-ip", "avarage:", "average:")
	waitFor(t, "the route to be back", func() bool { return newClient(t).get(ingress).status == http.StatusOK })
}

func numbers(from, to int) (all []int) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}
