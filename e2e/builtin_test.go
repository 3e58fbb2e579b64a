package e2e

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBesideTheBuiltIn is why one would move from Traefik's own rateLimit: the same numbers, the same Traefik, the same
// requests. A failure of the built-in's half means that Traefik has been mended, and the README must be.
func TestBesideTheBuiltIn(t *testing.T) {
	t.Run("headers when allowed", func(t *testing.T) {
		s := start(t, setup{dynamic: "e2e/testdata/builtin.yml", backend: &yes{}})
		builtin, sluice := s.get(t, "/builtin/one"), s.get(t, "/sluice/one")
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			require.Empty(t, builtin.header.Get(name))
			require.NotEmpty(t, sluice.header.Get(name))
		}
	})

	t.Run("idle for 3 s", func(t *testing.T) {
		s := start(t, setup{dynamic: "e2e/testdata/builtin.yml", backend: &yes{}})
		drained := time.Now()
		s.volley(t, 40, 10, "/builtin/one", "/sluice/one")
		began := time.Now()
		time.Sleep(3 * time.Second)
		builtin := s.volley(t, 25, 10, "/builtin/one")[http.StatusOK]
		atLeast := whole(time.Since(began))
		sluice := s.volley(t, 25, 10, "/sluice/one")[http.StatusOK]
		t.Logf("drained, then idle for 3 s: the built-in allows %d more, Sluice %d", builtin, sluice)

		require.GreaterOrEqual(t, builtin, 20)
		require.GreaterOrEqual(t, sluice, atLeast)
		require.LessOrEqual(t, sluice, whole(time.Since(drained)))
	})

	t.Run("two routers", func(t *testing.T) {
		s := start(t, setup{dynamic: "e2e/testdata/builtin.yml", backend: &yes{}})
		builtin := s.volley(t, 60, 10, "/builtin/one", "/builtin/two")[http.StatusOK]
		began := time.Now()
		sluice := s.volley(t, 60, 10, "/sluice/one", "/sluice/two")[http.StatusOK]
		t.Logf("two routers: the built-in allows %d, Sluice %d", builtin, sluice)

		require.GreaterOrEqual(t, builtin, 40)
		require.GreaterOrEqual(t, sluice, 20)
		require.LessOrEqual(t, sluice, 20+whole(time.Since(began)))
	})

	t.Run("a reload", func(t *testing.T) {
		s := start(t, setup{dynamic: "e2e/testdata/builtin.yml", backend: &yes{}})
		began := time.Now()
		s.volley(t, 60, 10, "/builtin/one")
		before := s.volley(t, 30, 10, "/sluice/one")[http.StatusOK]
		s.edit(t)
		builtin := s.volley(t, 30, 10, "/builtin/one")[http.StatusOK]
		sluice := s.volley(t, 30, 10, "/sluice/one")[http.StatusOK]
		t.Logf("drained, then a reload: the built-in allows %d more, Sluice %d", builtin, sluice)

		require.GreaterOrEqual(t, builtin, 20)
		require.GreaterOrEqual(t, before, 20)
		require.LessOrEqual(t, before+sluice, 20+whole(time.Since(began)))
	})
}

// whole is how many tokens a bucket that gains one a second has surely gained.
func whole(d time.Duration) int {
	return int(math.Floor(d.Seconds()))
}
