package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReloadUnderLoad changes the dynamic file, over and over, while eight clients drain a bucket: first what has nothing to do
// with the limit, then the limit's own size, up and down. To the last request it is as if there had been one bucket.
func TestReloadUnderLoad(t *testing.T) {
	s := start(t, setup{dynamic: "e2e/testdata/limits.yml", backend: &yes{}})
	load := s.load(t, 8, "/reloaded")

	reloads := 0
	for load.refused.Load() == 0 {
		s.edit(t)
		reloads++
		require.LessOrEqual(t, load.passed.Load(), int64(3000), "after %d reloads", reloads)
	}
	t.Logf("%d reloads until the bucket was empty", reloads)
	require.Greater(t, reloads, 5)
	require.EqualValues(t, 3000, load.passed.Load())

	s.edit(t, "burst: 3000", "burst: 3500")
	waitFor(t, "the 500 that are new", func() bool { return load.passed.Load() >= 3500 })
	s.edit(t)
	s.edit(t, "burst: 3500", "burst: 1000")
	s.edit(t)
	time.Sleep(200 * time.Millisecond)
	load.stop()
	require.EqualValues(t, 3500, load.passed.Load())
	require.Zero(t, load.others.Load(), "responses that were neither 200 nor 429")
}

// TestManyReloads asks whether a thousand reloads leave anything behind.
func TestManyReloads(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand reloads take a while")
	}
	s := start(t, setup{
		dynamic: "e2e/testdata/limits.yml",
		backend: &yes{},
		args:    []string{"--api.debug=true"},
		tls:     certificate(t),
	})
	reload := func(times int) {
		for range times {
			s.edit(t)
			s.get(t, "/reloaded")
		}
	}
	reload(100) // until caches and pools have grown to their size
	goroutines, heap := s.leftovers(t)
	began := time.Now()
	reload(1000)
	goroutinesAfter, heapAfter := s.leftovers(t)
	t.Logf("1,000 reloads in %v: goroutines %d to %d, heap %.1f to %.1f MB",
		time.Since(began).Round(time.Millisecond), goroutines, goroutinesAfter, heap, heapAfter)
	require.InDelta(t, goroutines, goroutinesAfter, 10)
	require.Less(t, heapAfter, heap+3, "heap in MB")
	require.Equal(t, "1899", s.get(t, "/reloaded").header.Get("X-RateLimit-Remaining"))
}

// certificate is a dynamic file with a certificate in it. Without one Traefik makes a new RSA key in every reload, which takes
// ten times as long as all the rest.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return fmt.Sprintf("tls: {stores: {default: {defaultCertificate: {certFile: %q, keyFile: %q}}}}\n",
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// leftovers is how many goroutines Traefik has, and how many megabytes after a garbage collection.
func (s *stage) leftovers(t *testing.T) (goroutines int, heap float64) {
	t.Helper()
	ask := func(path string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.API()+path, nil)
		require.NoError(t, err)
		answer := do(t, http.DefaultClient, request)
		require.Equal(t, http.StatusOK, answer.status)
		return answer.body
	}
	// What a reload puts away may take a collection or two to go.
	for range 3 {
		ask("/debug/pprof/heap?gc=1")
		time.Sleep(time.Second)
	}
	var variables struct {
		Goroutines2 int // sic
		Memstats    struct{ HeapAlloc float64 }
	}
	require.NoError(t, json.Unmarshal([]byte(ask("/debug/vars")), &variables))
	return variables.Goroutines2, variables.Memstats.HeapAlloc / 1e6
}

// load is a stream of requests that goes on beside the test, and what became of them.
type load struct {
	passed, refused, others atomic.Int64
	stop                    func()
}

// load sends about 200 requests a second from each of some clients, until it is stopped.
func (s *stage) load(t *testing.T, clients int, path string) *load {
	var (
		l       = &load{}
		group   sync.WaitGroup
		stopped = make(chan struct{})
		client  = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	)
	for range clients {
		group.Go(func() {
			for {
				select {
				case <-stopped:
					return
				case <-time.After(4 * time.Millisecond):
				}
				switch got, _ := status(client, s.web+path); got {
				case http.StatusOK:
					l.passed.Add(1)
				case http.StatusTooManyRequests:
					l.refused.Add(1)
				default:
					l.others.Add(1)
				}
			}
		})
	}
	l.stop = sync.OnceFunc(func() {
		close(stopped)
		group.Wait()
		client.CloseIdleConnections()
	})
	t.Cleanup(l.stop)
	return l
}
