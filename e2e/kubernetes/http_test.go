package kubernetes

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// limit and remaining are what the rate-limit header fields say; -1 when they do not.
func (a answer) limit() int     { return number(a.header, "X-RateLimit-Limit") }
func (a answer) remaining() int { return number(a.header, "X-RateLimit-Remaining") }

func number(header http.Header, name string) int {
	n, err := strconv.Atoi(header.Get(name))
	if err != nil {
		return -1
	}
	return n
}

// client asks the gateway from an address of its own.
type client struct {
	http.Client
	t *testing.T
}

var clients atomic.Uint32

// newClient makes a client that no limit knows yet.
func newClient(t *testing.T) *client {
	t.Helper()
	raised(t)
	n := clients.Add(1)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 1, byte(n>>8), byte(n))}}
	c := &client{t: t}
	c.Transport = &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// get asks for a host's root; header are names and values in turn.
func (c *client) get(host string, header ...string) answer {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+site.traefik.address("web")+"/", nil)
	require.NoError(c.t, err)
	request.Host = host
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	response, err := c.Do(request)
	require.NoError(c.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	return answer{response.StatusCode, response.Header, string(text)}
}

// logged says whether Traefik's log has a text.
func logged(text string) bool { return strings.Contains(site.traefik.log(), text) }

// kubectl runs kubectl as an operator.
func kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	raised(t)
	output, err := site.kubectl("", arguments...)
	require.NoError(t, err)
	return output
}

// edit changes a text in a Middleware with `kubectl edit`, and back when the test ends.
func edit(t *testing.T, name, from, to string) {
	t.Helper()
	change := func(from, to string) {
		t.Setenv("KUBE_EDITOR", "sed -i 's/"+from+"/"+to+"/'")
		require.Contains(t, kubectl(t, "edit", "middleware", "-n", "example", name), "edited")
	}
	change(from, to)
	t.Cleanup(func() { change(to, from) })
}

// waitFor asks every now and then until the answer is yes.
func waitFor(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !yes(); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "waited too long for %s", what)
	}
}
