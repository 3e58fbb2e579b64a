package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/backend"
	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

// The examples about what a limit meets at the edge: doubt about its numbers, proxies in front, browsers.

func TestDryRun(t *testing.T) {
	t.Parallel()
	s := scenario(t, "dry-run")
	for i := range 8 {
		got := s.get(t, "/data")
		require.Equal(t, http.StatusOK, got.status)
		require.Equal(t, "20", got.header.Get("X-RateLimit-Limit"), "the limit that is enforced")
		if i < 5 {
			require.Empty(t, got.header.Values("X-RateLimit-Dry-Run"))
		} else {
			require.Regexp(t, `^"stricter";r=0;t=(60|5\d)$`, got.header.Get("X-RateLimit-Dry-Run"))
		}
	}
	const report = "sluice: limits@file: the limit stricter, in dry run, would have refused 1 request, most of 127.0.0.1 (1)"
	waitFor(t, "the report", func() bool { return strings.Contains(s.Log(), report) })
	require.Equal(t, 1, strings.Count(s.Log(), "would have refused"), "one line a minute, however many are refused")
	require.Regexp(t, `ERR .*`+"sluice: limits@file", s.Log(), "at Traefik's default level")

	// Enforced, the limit goes on from where it is.
	s.edit(t, "dryRun: true", "dryRun: false")
	refused := s.get(t, "/data")
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Empty(t, refused.header.Values("X-RateLimit-Dry-Run"))
	require.Equal(t, "5", refused.header.Get("X-RateLimit-Limit"))
	require.Contains(t, refused.body, `["stricter"]`)
	requireLeft(t, "4", s.from(t, "127.0.0.2", http.MethodGet, "/data", ""))

	// All limits at once.
	s.edit(t, "          limits:\n", "          dryRun: true\n          limits:\n")
	trial := s.get(t, "/data")
	require.Equal(t, http.StatusOK, trial.status)
	require.Regexp(t, `^"stricter";r=0;t=\d+$`, trial.header.Get("X-RateLimit-Dry-Run"))
	require.Empty(t, trial.header.Values("X-RateLimit-Limit"), "there is no limit that a client should heed")
}

func TestBehindProxy(t *testing.T) {
	t.Parallel()
	s := startStatic(t, "behind-proxy")
	ask := func(peer, path string, forwarded ...string) answer {
		var header []string
		for _, line := range forwarded {
			header = append(header, "X-Forwarded-For", line)
		}
		return s.from(t, peer, http.MethodGet, path, "", header...)
	}
	exhaust := func(peer, path string, forwarded func(i int) string) {
		t.Helper()
		for i := range 5 {
			require.Equal(t, http.StatusOK, ask(peer, path, forwarded(i)).status, "request %d", i)
		}
		for i := range 3 {
			require.Equal(t, http.StatusTooManyRequests, ask(peer, path, forwarded(5+i)).status, "request %d", 5+i)
		}
	}

	// One proxy: the last entry counts, whatever the client wrote before it.
	exhaust("127.0.0.1", "/data", func(i int) string { return fmt.Sprintf("198.51.100.%d, 203.0.113.1", i) })
	require.Equal(t, http.StatusTooManyRequests, ask("127.0.0.1", "/data", "198.51.100.1", "203.0.113.1").status, "as two lines")
	require.Equal(t, http.StatusTooManyRequests, ask("127.0.0.1", "/data", "203.0.113.1:4711").status, "with a port")
	requireLeft(t, "4", ask("127.0.0.1", "/data", "203.0.113.1, 203.0.113.2"))
	exhaust("127.0.0.1", "/data", func(i int) string { return fmt.Sprintf("2001:db8:0:1::%d", i) }) // within one /64
	requireLeft(t, "4", ask("127.0.0.1", "/data", "2001:db8:0:2::1"))

	// Around the proxy: the peer counts, and no entry of the header.
	exhaust("127.0.0.2", "/data", func(i int) string { return fmt.Sprintf("203.0.113.%d", 50+i) })
	requireLeft(t, "4", ask("127.0.0.1", "/data", "203.0.113.50"))
	requireLeft(t, "4", ask("127.0.0.3", "/data", "203.0.113.1"))

	// Nothing in the header to go by: the peer, which here is the proxy.
	exhaust("127.0.0.1", "/data", func(i int) string {
		return []string{"", " ", "nonsense", "203.0.113.9, ", "1.2.3", "[::1", ",", ",,"}[i]
	})

	// Any number of proxies: the last entry that is none of them.
	exhaust("127.0.0.1", "/keyed", func(i int) string {
		return fmt.Sprintf("198.51.100.%d, 203.0.113.1", i) + []string{"", ", 162.158.1.1", ", 162.158.1.1, 10.0.7.7", ", 2606:4700::1"}[i%4]
	})
	requireLeft(t, "4", ask("127.0.0.1", "/keyed", "203.0.113.1, 203.0.113.2, 10.0.7.7"))
	exhaust("127.0.0.2", "/keyed", func(i int) string { return fmt.Sprintf("203.0.113.%d, 162.158.1.1", i) })
}

// startStatic raises an example that has a static file of its own.
func startStatic(t *testing.T, name string) *stage {
	t.Helper()
	root, err := gateway.Root()
	require.NoError(t, err)
	g, err := gateway.Start(t.Context(), gateway.Options{
		StaticFile:  filepath.Join(root, "examples", name, "traefik.yml"),
		EntryPoints: map[string]string{"web": "127.0.0.1:0", "traefik": "127.0.0.1:0"},
		Env:         []string{"BACKEND_URL=" + serve(t, backend.New(io.Discard))},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		g.Stop()
		if t.Failed() {
			t.Logf("Traefik's log:\n%s", g.Log())
		}
	})
	s := &stage{Gateway: g, web: g.URL("web")}
	waitFor(t, "its routes", func() bool { return s.from(t, "127.0.0.99", http.MethodGet, "/data", "").status == http.StatusOK })
	return s
}

func TestCORS(t *testing.T) {
	t.Parallel()
	s := start(t, setup{dynamic: "examples/cors/dynamic.yml", backend: withCORS(backend.New(io.Discard))})
	const origin = "https://app.example.com"
	preflight := func(path string) answer {
		return s.send(t, http.MethodOptions, path, "", "Origin", origin, "Access-Control-Request-Method", "GET")
	}
	exposed := "X-RateLimit-Limit,X-RateLimit-Remaining,X-RateLimit-Reset,Retry-After"

	for _, path := range []string{"/data", "/node"} {
		for range 10 {
			got := preflight(path)
			require.Less(t, got.status, 300)
			require.Equal(t, []string{origin}, got.header.Values("Access-Control-Allow-Origin"))
			require.Empty(t, got.header.Values("X-RateLimit-Limit"), "a preflight is not counted")
		}
		first := s.get(t, path, "Origin", origin)
		requireLeft(t, "4", first)
		require.Equal(t, []string{origin}, first.header.Values("Access-Control-Allow-Origin"))
		passed, refused := s.spend(t, path, "Origin", origin)
		require.Equal(t, 4, passed)
		require.Equal(t, []string{origin}, refused.header.Values("Access-Control-Allow-Origin"))
		require.Contains(t, strings.Join(refused.header.Values("Vary"), ","), "Origin")
		for _, name := range strings.Split(exposed, ",") {
			require.Contains(t, refused.header.Get("Access-Control-Expose-Headers"), name)
			require.NotEmpty(t, refused.header.Get(name))
		}
		require.Less(t, preflight(path).status, 300, "nor is one refused when all else is")
	}

	// OPTIONS alone is no preflight.
	require.Equal(t, http.StatusTooManyRequests, s.send(t, http.MethodOptions, "/node", "").status)
	require.Equal(t, http.StatusTooManyRequests, s.send(t, http.MethodOptions, "/node", "", "Origin", origin).status)

	// Why the order matters.
	s.edit(t, "middlewares: [cors, limit]", "middlewares: [limit, cors]")
	refused := s.get(t, "/data", "Origin", origin)
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Empty(t, refused.header.Values("Access-Control-Allow-Origin"))
}

// withCORS is a service that does its own CORS on /node.
func withCORS(service http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/node" {
			w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
			if r.Method == http.MethodOptions {
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		service.ServeHTTP(w, r)
	})
}
