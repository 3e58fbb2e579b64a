package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRefusals reads what different clients are told. (What a gRPC client is told is tested with the example of that name.)
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := start(t, setup{dynamic: "e2e/testdata/refusals.yml", backend: &yes{}})
	refuse := func(t *testing.T, method, path string, header ...string) answer {
		t.Helper()
		require.Equal(t, http.StatusOK, s.send(t, method, path, "", header...).status)
		refused := s.send(t, method, path, "", header...)
		require.NotEmpty(t, refused.header.Get("Retry-After"))
		return refused
	}

	const (
		problem = "application/problem+json"
		plain   = "text/plain; charset=utf-8"
		page    = "text/html; charset=utf-8"
	)
	for i, client := range []struct{ accept, gets string }{
		{"", problem},
		{"*/*", problem},
		{"application/json", problem},
		{"application/problem+json, */*;q=0.1", problem},
		{"application/json;q=0.9, text/html;q=0.8", problem},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8", page}, // a browser
		{"TEXT/HTML", page},
		{"text/plain", plain},
		{"text/plain;q=0.5, text/html;q=0.4", plain},
		{"text/*", page},
		{"text/html;q=0, text/*", plain},
		{"image/png", problem},
		{"text/html;q=nonsense", problem},
		{";;,,q==", problem},
	} {
		t.Run("Accept: "+client.accept, func(t *testing.T) {
			header := []string{"Accept", client.accept}
			if client.accept == "" {
				header = nil
			}
			got := refuse(t, http.MethodGet, fmt.Sprint("/once/accept-", i), header...)
			require.Equal(t, http.StatusTooManyRequests, got.status)
			require.Equal(t, client.gets, got.header.Get("Content-Type"))
			require.Equal(t, strconv.Itoa(len(got.body)), got.header.Get("Content-Length"))
			switch client.gets {
			case problem:
				var document map[string]any
				require.NoError(t, json.Unmarshal([]byte(got.body), &document))
				require.Equal(t, map[string]any{
					"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Quota Exceeded", "status": 429.0,
					"detail": "Too many requests. Try again in 3600 s.", "violated-policies": []any{"once"},
				}, document)
			case plain:
				require.Equal(t, "Too many requests. Try again in 3600 s.\n", got.body)
			case page:
				require.Contains(t, got.body, "<!doctype html>")
				require.Contains(t, got.body, "Try again in 3600 s.")
			}
		})
	}

	t.Run("HEAD", func(t *testing.T) {
		got := refuse(t, http.MethodHead, "/once/head")
		require.Equal(t, http.StatusTooManyRequests, got.status)
		require.Empty(t, got.body)
		require.Equal(t, http.StatusTooManyRequests, s.get(t, "/once/head").status, "on the same connection the next response is read right")
	})

	t.Run("an operator's own", func(t *testing.T) {
		got := refuse(t, http.MethodGet, "/own/words", "Accept", "text/html")
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.Contains(t, got.header.Get("Content-Type"), "text/plain")
		require.Equal(t, "limit=once", got.header.Get("X-Support"))
		require.Equal(t, fmt.Sprintf("once allows 1, 0 are left, come back in %s s or at %s",
			got.header.Get("Retry-After"), got.header.Get("X-RateLimit-Reset")), got.body)
	})

	t.Run("an operator's own, whose type shows", func(t *testing.T) {
		for path, want := range map[string][2]string{
			"/own-object": {"application/json", `{"wait":3600}`},
			"/own-list":   {"application/json", `["wait",3600]`},
			"/own-page":   {page, "<p>Wait 3600 s"},
		} {
			got := refuse(t, http.MethodGet, path)
			require.Equal(t, want, [2]string{got.header.Get("Content-Type"), got.body})
		}
	})

	t.Run("jitter", func(t *testing.T) {
		told := map[string]bool{}
		for i := range 8 {
			got := refuse(t, http.MethodGet, fmt.Sprint("/jitter/", i)).header.Get("Retry-After")
			seconds, err := strconv.Atoi(got)
			require.NoError(t, err)
			require.GreaterOrEqual(t, seconds, 3600)
			require.LessOrEqual(t, seconds, 3630)
			told[got] = true
		}
		require.Greater(t, len(told), 1, "not all come back at once")
	})

	t.Run("nothing that was sent comes back", func(t *testing.T) {
		for i, accept := range []string{"text/html", "text/plain", "*/*"} {
			path := fmt.Sprintf("/once/%d%%3Cscript%%3E?<script>", i)
			got := refuse(t, http.MethodGet, path, "Accept", accept, "X-Api-Key", "<script>", "Referer", "<script>")
			require.NotContains(t, got.body, "script")
			require.NotContains(t, fmt.Sprint(got.header), "script")
		}
	})
}

// TestRetryAfterIsTrue waits as it is told, once for each algorithm. A moment before, it would have been refused.
func TestRetryAfterIsTrue(t *testing.T) {
	t.Parallel()
	s := start(t, setup{dynamic: "e2e/testdata/refusals.yml", backend: &yes{}})
	for _, algorithm := range []string{"bucket", "interval", "window", "clock", "cost"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			// The machine may be slow, so that what was refused a moment ago passes: then once more.
			waitFor(t, "a quiet moment", func() bool {
				path := fmt.Sprintf("/waits/%s/%d", algorithm, time.Now().UnixNano())
				_, refused := s.spend(t, path)
				told := time.Now()
				seconds, err := strconv.Atoi(refused.header.Get("Retry-After"))
				require.NoError(t, err)
				require.GreaterOrEqual(t, seconds, 1)
				require.LessOrEqual(t, seconds, 3)

				early := s.get(t, path)
				if early.status == http.StatusOK || time.Since(told) > 100*time.Millisecond {
					return false
				}
				time.Sleep(time.Until(told.Add(time.Duration(seconds) * time.Second)))
				require.Equal(t, http.StatusOK, s.get(t, path).status, "told %d s", seconds)
				return true
			})
		})
	}
}
