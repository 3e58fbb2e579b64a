package e2e

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the tests of the examples and of single options have in common. Those that wait for a window to end run beside each other.

// scenario raises an example as it lies in its folder.
func scenario(t *testing.T, name string) *stage {
	t.Helper()
	return start(t, setup{dynamic: "examples/" + name + "/dynamic.yml"})
}

// from sends a request as if from another machine: on Linux all of 127.0.0.0/8 is this one.
func (s *stage) from(t *testing.T, address, method, path, body string, header ...string) answer {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	client := &http.Client{Transport: &http.Transport{
		DialContext:           dialer.DialContext,
		DisableKeepAlives:     true,
		ExpectContinueTimeout: time.Minute,
	}}
	r := newRequest(t, method, s.web+path, body, header...)
	if len(body) > 10_000 { // whose refusal might end the connection while it is being sent
		r.Header.Set("Expect", "100-continue")
	}
	return do(t, client, r)
}

// newRequest makes one with a header of names and values in turn; the name Host is the host that is asked for.
func newRequest(t *testing.T, method, url, body string, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	r.Host = r.Header.Get("Host")
	r.Header.Del("Host")
	return r
}

// spend sends the same GET until it is refused, and returns how many passed, and the refusal.
func (s *stage) spend(t *testing.T, path string, header ...string) (passed int, refusal answer) {
	t.Helper()
	for range 200 {
		if refusal = do(t, http.DefaultClient, newRequest(t, http.MethodGet, s.web+path, "", header...)); refusal.status != http.StatusOK {
			require.Equal(t, http.StatusTooManyRequests, refusal.status, refusal.body)
			return passed, refusal
		}
		passed++
	}
	require.Fail(t, "nothing was refused", "%s, %v", path, header)
	return passed, refusal
}

// requireLeft is the proof of what a request was charged.
func requireLeft(t *testing.T, left string, got answer) {
	t.Helper()
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, left, got.header.Get("X-RateLimit-Remaining"))
}

// awayFrom waits if a multiple of a length of time on the UTC clock is so near that the test would run across it.
func awayFrom(length time.Duration) {
	const enough = 15 * time.Second
	if left := time.Until(time.Now().Truncate(length).Add(length)); left < enough {
		time.Sleep(left)
	}
}
