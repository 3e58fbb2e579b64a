package e2e

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// get asks the gateway for a path; header are names and values in turn.
func (s *stage) get(t *testing.T, path string, header ...string) answer {
	t.Helper()
	return s.send(t, http.MethodGet, path, "", header...)
}

// send makes one request to the gateway and reads the response whole.
func (s *stage) send(t *testing.T, method, path, body string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.web+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	return do(t, http.DefaultClient, request)
}

// do makes a request with a client of the caller's own.
func do(t *testing.T, client *http.Client, request *http.Request) answer {
	t.Helper()
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{status: response.StatusCode, header: response.Header, body: string(text)}
}

// statuses counts responses by their status.
type statuses map[int]int

// volley sends n requests over as many connections at once as told, all to the paths in turn.
func (s *stage) volley(t *testing.T, n, connections int, paths ...string) statuses {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var (
		next   atomic.Int64
		mu     sync.Mutex
		counts = statuses{}
		failed error
		group  sync.WaitGroup
	)
	for range connections {
		group.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				status, err := status(client, s.web+paths[int(i)%len(paths)])
				mu.Lock()
				counts[status]++
				failed = errorOr(failed, err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	require.NoError(t, failed)
	return counts
}

// status asks once and tells how it went.
func status(client *http.Client, url string) (int, error) {
	response, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// errorOr keeps the first error.
func errorOr(first, next error) error {
	if first != nil {
		return first
	}
	return next
}

// yes is a backend that is content with every path, and counts what reaches it.
type yes struct{ served atomic.Int64 }

func (y *yes) ServeHTTP(http.ResponseWriter, *http.Request) { y.served.Add(1) }
