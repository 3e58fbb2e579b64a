package e2e

import (
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Three articles each build a limiter inside an application. These tests load the examples that put the same limit in front
// of an application without one, and expect what the articles promise. The third is in seeds_window_test.go.

// TestFastAPIBurst: 15 requests at once, of which ten pass.
func TestFastAPIBurst(t *testing.T) {
	s := start(t, setup{dynamic: "examples/fastapi-bucket/dynamic.yml"})
	var began time.Time
	answers := s.promptly(t, func(c caller) ([]answer, bool) {
		began = time.Now()
		answers := c.times(t, 15, "/data")
		return answers, time.Since(began) < 500*time.Millisecond // when there is another token
	})

	for i, got := range answers[:10] {
		require.Equal(t, http.StatusOK, got.status)
		require.Equal(t, strconv.Itoa(9-i), got.header.Get("X-RateLimit-Remaining"))
		require.Empty(t, got.header.Get("Retry-After"))
		require.JSONEq(t, `{"data": "Some important information"}`, got.body)
	}
	for _, got := range answers[10:] {
		require.Equal(t, http.StatusTooManyRequests, got.status)
		require.Equal(t, "0", got.header.Get("X-RateLimit-Remaining"))
		require.Equal(t, "1", got.header.Get("Retry-After"), "half a second, rounded up")
		require.Equal(t, "application/json", got.header.Get("Content-Type"))
		require.JSONEq(t, `{"detail": "Too many requests. Try again later."}`, got.body)
	}
	for _, got := range answers {
		require.Equal(t, "10", got.header.Get("X-RateLimit-Limit"))
		reset, err := strconv.ParseInt(got.header.Get("X-RateLimit-Reset"), 10, 64)
		require.NoError(t, err)
		require.WithinRange(t, time.Unix(reset, 0), began, began.Add(2*time.Second))
	}
}

// TestFastAPIRefill: what three seconds bring back is six tokens.
func TestFastAPIRefill(t *testing.T) {
	s := start(t, setup{dynamic: "examples/fastapi-bucket/dynamic.yml"})
	answers := s.promptly(t, func(c caller) ([]answer, bool) {
		began := time.Now()
		answers := c.times(t, 12, "/data")
		time.Sleep(3 * time.Second)
		answers = append(answers, c.times(t, 5, "/data")...)
		return answers, time.Since(began) < 3500*time.Millisecond
	})
	require.Equal(t, "9 8 7 6 5 4 3 2 1 0 429 429 5 4 3 2 1", sequence(answers))
}

// TestFastAPIInterval: with the article's own refill there is nothing for a second, and then two tokens at once.
func TestFastAPIInterval(t *testing.T) {
	s := start(t, setup{dynamic: "examples/fastapi-bucket/dynamic.yml"})
	answers := s.promptly(t, func(c caller) ([]answer, bool) {
		began := time.Now()
		answers := []answer{c.get(t, "/interval/data")}
		opened := time.Now() // the first period began between these two
		answers = append(answers, c.times(t, 11, "/interval/data")...)
		time.Sleep(time.Until(began.Add(750 * time.Millisecond)))
		answers = append(answers, c.get(t, "/interval/data"))
		inTime := time.Since(began) < time.Second
		time.Sleep(time.Until(opened.Add(time.Second)))
		answers = append(answers, c.times(t, 3, "/interval/data")...)
		return answers, inTime && time.Since(began) < 2*time.Second
	})
	require.Equal(t, "9 8 7 6 5 4 3 2 1 0 429 429 429 1 0 429", sequence(answers))
	require.JSONEq(t, `{"detail": "Too many requests. Try again later."}`, answers[15].body)
}

// TestFastAPIEveryRoute: the article's middleware counts all routes in one bucket.
func TestFastAPIEveryRoute(t *testing.T) {
	s := start(t, setup{dynamic: "examples/fastapi-bucket/dynamic.yml"})
	answers := s.promptly(t, func(c caller) ([]answer, bool) {
		began := time.Now()
		answers := []answer{c.get(t, "/"), c.get(t, "/data"), c.get(t, "/health"), c.get(t, "/no-such-route")}
		return answers, time.Since(began) < 500*time.Millisecond
	})
	for i, body := range []string{
		`{"message":"Hello, world!"}`, `{"data":"Some important information"}`, `{"status":"ok"}`, `{"detail":"Not Found"}`,
	} {
		require.Equal(t, body, answers[i].body)
		require.Equal(t, strconv.Itoa(9-i), answers[i].header.Get("X-RateLimit-Remaining"))
	}
}

// TestNode: ten requests pass, then none, and a second brings one back.
func TestNode(t *testing.T) {
	s := start(t, setup{dynamic: "examples/node-bucket/dynamic.yml"})
	answers := s.promptly(t, func(c caller) ([]answer, bool) {
		began := time.Now()
		answers := c.times(t, 12, "/")
		time.Sleep(time.Second)
		answers = append(answers, c.times(t, 2, "/any/path")...)
		return answers, time.Since(began) < 2*time.Second
	})
	require.Equal(t, "9 8 7 6 5 4 3 2 1 0 429 429 0 429", sequence(answers))
	for _, got := range answers {
		require.Equal(t, "text/plain", got.header.Get("Content-Type"))
		if got.status == http.StatusOK {
			require.Equal(t, "Request accepted\n", got.body)
		} else {
			require.Equal(t, "Too Many Requests\n", got.body)
		}
	}
}

// sequence is what came of some requests: how many more were left after one that passed, or else the status.
func sequence(answers []answer) string {
	var text string
	for _, got := range answers {
		if text != "" {
			text += " "
		}
		if got.status == http.StatusOK {
			text += got.header.Get("X-RateLimit-Remaining")
		} else {
			text += strconv.Itoa(got.status)
		}
	}
	return text
}

// caller is a client with an address of its own, of the many that Linux has for this machine, and so with a bucket of its own.
type caller struct {
	web    string
	client *http.Client
}

// promptly has a caller make requests that must not take long, since buckets fill with time: if they did, on a busy
// machine, another caller tries again. The attempt says whether it was in time.
func (s *stage) promptly(t *testing.T, attempt func(caller) ([]answer, bool)) []answer {
	t.Helper()
	for n := byte(1); n <= 10; n++ {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, n)}}
		transport := &http.Transport{DialContext: dialer.DialContext}
		answers, inTime := attempt(caller{s.web, &http.Client{Transport: transport}})
		transport.CloseIdleConnections()
		if inTime {
			return answers
		}
	}
	require.Fail(t, "ten callers were too slow, so this machine is too busy to tell")
	return nil
}

func (c caller) get(t *testing.T, path string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.web+path, nil)
	require.NoError(t, err)
	return do(t, c.client, request)
}

func (c caller) times(t *testing.T, n int, path string) []answer {
	t.Helper()
	var answers []answer
	for range n {
		answers = append(answers, c.get(t, path))
	}
	return answers
}
