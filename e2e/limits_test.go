package e2e

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCrowd lets 64 connections loose on a key that nobody has used before.
func TestCrowd(t *testing.T) {
	service := &yes{}
	s := start(t, setup{dynamic: "e2e/testdata/limits.yml", backend: service})
	counts := s.volley(t, 1500, 64, "/crowd")
	require.Equal(t, statuses{http.StatusOK: 1000, http.StatusTooManyRequests: 500}, counts)
	require.EqualValues(t, 1000, service.served.Load())
}

// TestFirstAtOnce sends the first requests of one key after another, all of a key's at the same moment. One may pass.
func TestFirstAtOnce(t *testing.T) {
	s := start(t, setup{dynamic: "e2e/testdata/limits.yml", backend: &yes{}})
	for key := range 150 {
		counts := s.volley(t, 16, 16, "/first/"+strconv.Itoa(key))
		require.Equal(t, statuses{http.StatusOK: 1, http.StatusTooManyRequests: 15}, counts, "key %d", key)
	}
}

// TestTwoLimits has one limit refuse what must then not be charged to the other.
func TestTwoLimits(t *testing.T) {
	s := start(t, setup{dynamic: "e2e/testdata/limits.yml", backend: &yes{}})
	first := s.get(t, "/two-limits/a")
	require.Equal(t, "4", first.header.Get("X-RateLimit-Limit"), "the limit with the fewest requests left")
	require.Equal(t, "3", first.header.Get("X-RateLimit-Remaining"))

	require.Equal(t, 3, s.volley(t, 20, 8, "/two-limits/a")[http.StatusOK])
	require.Equal(t, 4, s.volley(t, 20, 8, "/two-limits/b")[http.StatusOK])
	require.Equal(t, 2, s.volley(t, 20, 8, "/two-limits/c")[http.StatusOK], "what is left of ten for all paths")
}

// TestSharedByRouters counts the requests of two routers in one bucket.
func TestSharedByRouters(t *testing.T) {
	s := start(t, setup{dynamic: "e2e/testdata/limits.yml", backend: &yes{}})
	require.Equal(t, "19", s.get(t, "/shared/one").header.Get("X-RateLimit-Remaining"))
	require.Equal(t, "18", s.get(t, "/shared/two").header.Get("X-RateLimit-Remaining"))
	require.Equal(t, 18, s.volley(t, 40, 16, "/shared/one", "/shared/two")[http.StatusOK])
}

// TestEntryPoint limits all that comes in by an entry point, whatever the route.
func TestEntryPoint(t *testing.T) {
	s := start(t, setup{
		dynamic: "e2e/testdata/limits.yml",
		backend: &yes{},
		args:    everybody,
	})
	require.Equal(t, "50", s.get(t, "/free/one").header.Get("X-RateLimit-Limit"))
	require.Equal(t, "20", s.get(t, "/shared/one").header.Get("X-RateLimit-Limit"), "a route's own limit is nearer to it")
	require.Equal(t, "18", s.get(t, "/shared/two").header.Get("X-RateLimit-Remaining"))

	require.Equal(t, 47, s.volley(t, 100, 16, "/free/one", "/free/two")[http.StatusOK])
	refused := s.get(t, "/shared/one")
	require.Equal(t, http.StatusTooManyRequests, refused.status, "it has 18 left, and everybody none")
	require.Equal(t, "50", refused.header.Get("X-RateLimit-Limit"))
}

// everybody is what the demo's static file says of its entry point.
var everybody = []string{"--entryPoints.web.http.middlewares=everybody@file"}

// The next tests load the demo's own file.

// TestDemoBucket spends a bucket and then takes Retry-After at its word.
func TestDemoBucket(t *testing.T) {
	s := start(t, setup{dynamic: "examples/demo/dynamic.yml", args: everybody})
	began := time.Now()
	first := s.get(t, "/data")
	require.Equal(t, http.StatusOK, first.status)
	require.Equal(t, "10", first.header.Get("X-RateLimit-Limit"))
	require.Equal(t, "9", first.header.Get("X-RateLimit-Remaining"))
	reset, err := strconv.ParseInt(first.header.Get("X-RateLimit-Reset"), 10, 64)
	require.NoError(t, err)
	require.WithinRange(t, time.Unix(reset, 0), began, began.Add(2*time.Second), "the next token comes within half a second")

	passed := 1
	next := s.get(t, "/data")
	for ; next.status == http.StatusOK; next = s.get(t, "/data") {
		passed++
	}
	require.GreaterOrEqual(t, passed, 10)
	require.LessOrEqual(t, float64(passed), 10+2*time.Since(began).Seconds())
	require.Equal(t, http.StatusTooManyRequests, next.status)
	require.Equal(t, "10", next.header.Get("X-RateLimit-Limit"))
	require.Equal(t, "0", next.header.Get("X-RateLimit-Remaining"))
	require.NotEmpty(t, next.header.Get("X-RateLimit-Reset"))

	waitAsTold(t, next)
	require.Equal(t, http.StatusOK, s.get(t, "/data").status)
}

// TestDemoWindow spends the window of one key, which is nothing to another.
func TestDemoWindow(t *testing.T) {
	s := start(t, setup{dynamic: "examples/demo/dynamic.yml", args: everybody})
	for left := 4; left >= 0; left-- {
		alice := s.get(t, "/keyed", "X-Api-Key", "alice")
		require.Equal(t, http.StatusOK, alice.status)
		require.Equal(t, strconv.Itoa(left), alice.header.Get("X-RateLimit-Remaining"))
	}
	refused := s.get(t, "/keyed", "X-Api-Key", "alice")
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Equal(t, http.StatusOK, s.get(t, "/keyed", "X-Api-Key", "bob").status)
	require.Equal(t, http.StatusOK, s.get(t, "/keyed").status, "without a key it is the address that counts")

	waitAsTold(t, refused)
	require.Equal(t, "4", s.get(t, "/keyed", "X-Api-Key", "alice").header.Get("X-RateLimit-Remaining"))
}

// TestDemoEverybody sends more than a hundred a second, over routes that have nothing but this limit in common.
func TestDemoEverybody(t *testing.T) {
	s := start(t, setup{dynamic: "examples/demo/dynamic.yml", args: everybody})
	began := time.Now()
	require.Equal(t, "100", s.get(t, "/health").header.Get("X-RateLimit-Limit"))
	counts := s.volley(t, 1000, 32, "/health", "/node", "/echo")
	took := time.Since(began)
	t.Logf("in %v: %v", took, counts)
	require.GreaterOrEqual(t, counts[http.StatusOK], 99)
	require.LessOrEqual(t, float64(counts[http.StatusOK]), 99+100*took.Seconds())
	require.Equal(t, 1000, counts[http.StatusOK]+counts[http.StatusTooManyRequests])
}

// waitAsTold waits for as long as a refusal says.
func waitAsTold(t *testing.T, refusal answer) {
	t.Helper()
	seconds, err := strconv.Atoi(refusal.header.Get("Retry-After"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, seconds, 1)
	time.Sleep(time.Duration(seconds) * time.Second)
}
