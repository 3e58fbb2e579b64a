package e2e

import (
	"net/http"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExempt uses a limit up, and then tries who still gets through.
func TestExempt(t *testing.T) {
	t.Parallel()
	var seen atomic.Value // the request target that the service saw last
	s := start(t, setup{
		dynamic: "e2e/testdata/exempt.yml",
		backend: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.Store(r.RequestURI) }),
		args: []string{
			"--entryPoints.web.forwardedHeaders.trustedIPs=127.0.0.1/32",
			"--entryPoints.web.http.sanitizePath=false", // or none of the odd paths would come as far as the plugin
		},
	})
	s.spend(t, "/used-up")
	passes := func(t *testing.T, got answer) {
		t.Helper()
		require.Equal(t, http.StatusOK, got.status)
		require.Empty(t, got.header.Values("X-RateLimit-Limit"), "it is not counted at all")
	}
	refused := func(t *testing.T, got answer) {
		t.Helper()
		require.Equal(t, http.StatusTooManyRequests, got.status)
	}

	t.Run("by address", func(t *testing.T) {
		passes(t, s.from(t, "127.0.3.7", http.MethodGet, "/", ""))
		refused(t, s.from(t, "127.0.4.7", http.MethodGet, "/", ""))
		refused(t, s.from(t, "127.0.4.7", http.MethodGet, "/", "", "X-Forwarded-For", "127.0.3.7", "X-Real-Ip", "127.0.3.7"))
		refused(t, s.get(t, "/", "X-Forwarded-For", "127.0.3.7")) // depth is 0: the header does not matter
	})

	t.Run("by method", func(t *testing.T) {
		passes(t, s.send(t, "PROPFIND", "/", ""))
		refused(t, s.send(t, "propfind", "/", ""))
		refused(t, s.send(t, "PROPPATCH", "/", "", "X-HTTP-Method-Override", "PROPFIND"))
	})

	t.Run("by secret", func(t *testing.T) {
		passes(t, s.get(t, "/", "X-Probe", "s3cret"))
		for _, wrong := range []string{"", "s3cre", "s3cret2", "S3cret", "s3cret, s3cret", `"s3cret"`} {
			refused(t, s.get(t, "/", "X-Probe", wrong))
		}
		refused(t, s.get(t, "/?X-Probe=s3cret", "Cookie", "X-Probe=s3cret"))
	})

	t.Run("preflight", func(t *testing.T) {
		preflight := []string{"Origin", "https://app.example.com", "Access-Control-Request-Method", "GET"}
		passes(t, s.send(t, http.MethodOptions, "/", "", preflight...))
		refused(t, s.send(t, http.MethodOptions, "/", "", preflight[:2]...))
		refused(t, s.send(t, http.MethodGet, "/", "", preflight...))
		for range 2 {
			s.send(t, http.MethodOptions, "/no-preflight", "", preflight...)
		}
		refused(t, s.send(t, http.MethodOptions, "/no-preflight", "", preflight...))
	})

	t.Run("by path", func(t *testing.T) {
		for _, path := range []string{"/healthz", "/healthz?deep=1", "/static/", "/static/a/b.css", "/users/7/avatar"} {
			passes(t, s.get(t, path))
			require.Equal(t, path, seen.Load())
		}
		// Traefik itself puts some spellings right. What it does not must never pass: the service may take it for a path that is not
		// exempt, as servlet containers take /static/..;/used-up for /used-up.
		exempt := regexp.MustCompile(`^(/healthz|/static(/[a-z.]+)*/?|/users/[a-z0-9]+/avatar)$`)
		for _, path := range []string{
			"/healthz/", "/HEALTHZ", "/healthzz", "/%68ealthz", "//healthz", "/./healthz", "/x/../healthz", "/healthz%2f", "/healthz/.",
			"/statics", "/static/../used-up", "/static/%2e%2e/used-up", "/static/..%2fused-up", "/static/%2e./used-up", "/static/a%2Fb", "/static//a",
			"/static/a/..", "/static/%252e%252e/used-up", "/static/a%00", "/static/%5c..%5cused-up", "/static/..;/used-up", "/static/..;a=b/used-up",
			"/users//avatar", "/users/7/avatar/", "/users/7%2favatar", "/users/a%2fb/avatar", "/users/7/avatar;x",
		} {
			got := s.get(t, path)
			if got.status == http.StatusOK {
				require.Regexp(t, exempt, seen.Load(), path)
				require.NotContains(t, seen.Load(), "..", path)
			} else {
				require.Contains(t, []int{http.StatusTooManyRequests, http.StatusBadRequest}, got.status, path)
			}
		}
	})
}
