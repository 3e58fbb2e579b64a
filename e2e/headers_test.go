package e2e

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// TestHeaderStyles reads the exact text of every style: of a request that passes, and of one that is refused.
func TestHeaderStyles(t *testing.T) {
	t.Parallel()
	s := start(t, setup{dynamic: "e2e/testdata/headers.yml", backend: &yes{}})
	xRateLimit := []string{"X-RateLimit-Limit: 3", "X-RateLimit-Remaining: 2", "X-RateLimit-Reset: in an hour"}
	xRefused := []string{"Retry-After: 3600", "X-RateLimit-Limit: 3", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: in an hour"}
	policy := `RateLimit-Policy: "bucket";q=4;w=7200, "window";q=3;w=3600`

	for _, style := range []struct{ name, passed, refused string }{
		{"default", lines(xRateLimit...), lines(xRefused...)},
		{"x-ratelimit", lines(xRateLimit...), lines(xRefused...)},
		{
			"ietf",
			lines(policy, `RateLimit: "bucket";r=3;t=1800, "window";r=2;t=3600`),
			lines("Retry-After: 3600", policy, `RateLimit: "bucket";r=1;t=1800, "window";r=0;t=3600`),
		},
		{
			"draft-06",
			lines("RateLimit-Limit: 3", "RateLimit-Policy: 4;w=7200, 3;w=3600", "RateLimit-Remaining: 2", "RateLimit-Reset: 3600"),
			lines("RateLimit-Limit: 3", "RateLimit-Policy: 4;w=7200, 3;w=3600", "RateLimit-Remaining: 0", "RateLimit-Reset: 3600", "Retry-After: 3600"),
		},
		{
			"both",
			lines(append(xRateLimit, policy, `RateLimit: "bucket";r=3;t=1800, "window";r=2;t=3600`)...),
			lines(append(xRefused, policy, `RateLimit: "bucket";r=1;t=1800, "window";r=0;t=3600`)...),
		},
		{"none", "", "Retry-After: 3600"},
	} {
		t.Run(style.name, func(t *testing.T) {
			// All within one second, or the numbers of seconds would differ.
			var passed, refused string
			waitFor(t, "a quiet moment", func() bool {
				path, began := "/"+style.name+"/"+strconv.FormatInt(time.Now().UnixNano(), 36), time.Now()
				first := s.get(t, path)
				s.get(t, path)
				s.get(t, path)
				last := s.get(t, path)
				require.Equal(t, http.StatusOK, first.status)
				require.Equal(t, http.StatusTooManyRequests, last.status)
				passed, refused = rateLimitFields(t, first, began), rateLimitFields(t, last, began)
				return time.Since(began) < time.Second
			})
			require.Equal(t, style.passed, passed)
			require.Equal(t, style.refused, refused)
		})
	}
}

// rateLimitFields is all of a response's fields that have to do with limits, one a line, in alphabetical order.
func rateLimitFields(t *testing.T, got answer, began time.Time) string {
	t.Helper()
	var fields []string
	for name, values := range got.header {
		wire := map[string]string{
			"X-Ratelimit-Limit": "X-RateLimit-Limit", "X-Ratelimit-Remaining": "X-RateLimit-Remaining", "X-Ratelimit-Reset": "X-RateLimit-Reset",
			"Ratelimit": "RateLimit", "Ratelimit-Policy": "RateLimit-Policy", "Ratelimit-Limit": "RateLimit-Limit",
			"Ratelimit-Remaining": "RateLimit-Remaining", "Ratelimit-Reset": "RateLimit-Reset", "Retry-After": "Retry-After",
		}[name]
		if wire == "" {
			require.NotContains(t, name, "Ratelimit")
			continue
		}
		value := strings.Join(values, " AND ")
		if name == "X-Ratelimit-Reset" {
			reset, err := strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
			require.WithinRange(t, time.Unix(reset, 0), began.Add(time.Hour), began.Add(time.Hour+3*time.Second))
			value = "in an hour"
		}
		fields = append(fields, wire+": "+value)
	}
	return lines(fields...)
}

func lines(fields ...string) string {
	sorted := slices.Sorted(slices.Values(fields))
	return strings.Join(sorted, "\n")
}

// TestUpstreamHeaders has a service that does some counting of its own.
func TestUpstreamHeaders(t *testing.T) {
	t.Parallel()
	service := streams()
	s := start(t, setup{
		dynamic: "e2e/testdata/headers.yml",
		backend: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-RateLimit-Limit", "999")
			w.Header().Set("X-RateLimit-Remaining", "998")
			w.Header().Set("RateLimit", `"theirs";r=998`)
			w.Header().Set("X-Other", "theirs")
			_, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			r.URL.Path = "/" + rest
			service.ServeHTTP(w, r)
		}),
	})

	t.Run("add", func(t *testing.T) {
		got := s.get(t, "/add/data")
		require.ElementsMatch(t, []string{"3", "999"}, got.header.Values("X-RateLimit-Limit"))
	})
	for _, request := range []struct{ name, method, path string }{
		{"200", http.MethodGet, "/replace/data"},
		{"404", http.MethodGet, "/replace/nothing"},
		{"HEAD", http.MethodHead, "/replace/health"},
		{"103, then 200", http.MethodGet, "/replace/hints"},
	} {
		t.Run("replace, "+request.name, func(t *testing.T) {
			got := s.send(t, request.method, request.path, "")
			require.Equal(t, []string{"3"}, got.header.Values("X-RateLimit-Limit"))
			require.Equal(t, []string{"2"}, got.header.Values("X-RateLimit-Remaining"))
			require.Len(t, got.header.Values("X-RateLimit-Reset"), 1)
			require.Equal(t, []string{`"bucket";r=3;t=1800, "window";r=2;t=3600`}, got.header.Values("RateLimit"))
			require.Equal(t, "theirs", got.header.Get("X-Other"))
		})
	}
	t.Run("replace, a large body both ways", func(t *testing.T) {
		got := s.send(t, http.MethodPost, "/replace/echo", strings.Repeat("x", 1_000_000))
		require.Contains(t, got.body, `"length":1000000`)
	})
	t.Run("replace, server-sent events", func(t *testing.T) {
		request := newRequest(t, http.MethodGet, s.web+"/replace/events?count=6", "", "Accept", "text/event-stream")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		var first time.Time
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if first.IsZero() && strings.HasPrefix(lines.Text(), "data:") {
				first = time.Now()
			}
		}
		require.Greater(t, time.Since(first), 600*time.Millisecond, "they are sent over a second; held back, they would arrive together")
	})
	t.Run("replace, websocket", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		connection, _, err := websocket.Dial(ctx, s.web+"/replace/websocket", nil)
		require.NoError(t, err)
		defer func() { _ = connection.CloseNow() }()
		require.NoError(t, connection.Write(ctx, websocket.MessageText, []byte("one")))
		_, answer, err := connection.Read(ctx)
		require.NoError(t, err)
		require.Equal(t, "echo one", string(answer))
	})
}
