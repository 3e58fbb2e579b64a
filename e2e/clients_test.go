package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

// TestClients has HTTP clients, as their authors made them, send four requests where three are allowed. Each has to be refused once, to wait as long as it
// was told by the header that it reads, and then to succeed. They know nothing of the test: all is seen between them and the gateway.
func TestClients(t *testing.T) {
	t.Parallel()
	s := start(t, setup{dynamic: "e2e/testdata/clients.yml", backend: &yes{}})

	t.Run("go-retryablehttp", func(t *testing.T) {
		t.Parallel()
		s.observe(t, untilRetryAfter, func(url string) ([]byte, error) {
			client := retryablehttp.NewClient()
			client.Logger = nil
			client.RetryWaitMin, client.RetryMax = time.Millisecond, 1
			for range 4 {
				response, err := client.Get(url)
				if err != nil {
					return nil, err
				}
				response.Body.Close()
			}
			return nil, nil
		})
	})

	for name, due := range map[string]due{"ky": untilRetryAfter, "axios": untilRetryAfter, "octokit": untilReset} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := filepath.Join(npmClients(t), name+".js")
			s.observe(t, due, func(url string) ([]byte, error) { return exec.Command("node", script, url).CombinedOutput() })
		})
	}

	t.Run("urllib3", func(t *testing.T) {
		t.Parallel()
		if exec.Command("python3", "-c", "import urllib3").Run() != nil {
			missing(t, "urllib3", "apt-get install python3-urllib3")
		}
		s.observe(t, untilRetryAfter, func(url string) ([]byte, error) {
			return exec.Command("python3", "testdata/clients/with_urllib3.py", url).CombinedOutput()
		})
	})
}

// due is when a client should ask again, by the header that it reads.
type due func(t *testing.T, refusal exchange) time.Time

func untilRetryAfter(t *testing.T, refusal exchange) time.Time {
	t.Helper()
	seconds, err := strconv.Atoi(refusal.header.Get("Retry-After"))
	require.NoError(t, err)
	return refusal.at.Add(time.Duration(seconds) * time.Second)
}

func untilReset(t *testing.T, refusal exchange) time.Time {
	t.Helper()
	reset, err := strconv.ParseInt(refusal.header.Get("X-RateLimit-Reset"), 10, 64)
	require.NoError(t, err)
	return time.Unix(reset, 0)
}

// observe runs a client and requires that it did as it was told.
func (s *stage) observe(t *testing.T, due due, client func(url string) ([]byte, error)) {
	t.Helper()
	for try := range 3 {
		between := s.between(t)
		output, err := client(between.url + "/" + strconv.FormatInt(time.Now().UnixNano(), 36))
		seen := between.seen()
		var statuses []int
		for _, exchange := range seen {
			statuses = append(statuses, exchange.status)
		}
		if try < 2 && len(seen) == 4 && err == nil {
			continue // so slow a machine that its fourth request came in the next window
		}
		require.NoError(t, err, "%v %s", statuses, output)
		require.Equal(t, []int{200, 200, 200, 429, 200}, statuses)
		told, came := due(t, seen[3]), seen[4].at
		t.Logf("refused at %s, told %s, came at %s", seen[3].at.Format(".000"), told.Sub(seen[3].at), came.Sub(seen[3].at))
		// Timers are a little early at times, and processes late.
		require.WithinRange(t, came, told.Add(-20*time.Millisecond), told.Add(3*time.Second))
		return
	}
}

// exchange is a request and its answer, as seen between a client and the gateway.
type exchange struct {
	at     time.Time // of the request
	status int
	header http.Header
}

// between is a proxy that changes nothing and remembers everything.
type between struct {
	url       string
	mu        sync.Mutex
	exchanges []exchange
}

func (s *stage) between(t *testing.T) *between {
	t.Helper()
	target, err := url.Parse(s.web)
	require.NoError(t, err)
	b := &between{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	b.url = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		pass := *proxy
		pass.ModifyResponse = func(response *http.Response) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.exchanges = append(b.exchanges, exchange{at: at, status: response.StatusCode, header: response.Header.Clone()})
			return nil
		}
		pass.ServeHTTP(w, r)
	}))
	return b
}

func (b *between) seen() []exchange {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exchanges
}

var installing sync.Mutex

// npmClients is the folder of the clients that come from npm, installed once for each version of their files.
func npmClients(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, program, "apt-get install nodejs npm")
		}
	}
	installing.Lock()
	defer installing.Unlock()
	root, err := gateway.Root()
	require.NoError(t, err)
	files, err := filepath.Glob("testdata/clients/*.js*")
	require.NoError(t, err)
	sum := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		sum.Write(text)
	}
	folder := filepath.Join(root, ".cache", fmt.Sprintf("clients-%x", sum.Sum(nil)[:6]))
	if _, err := os.Stat(folder); err == nil {
		return folder
	}

	require.NoError(t, os.MkdirAll(filepath.Dir(folder), 0o755))
	draft, err := os.MkdirTemp(filepath.Dir(folder), "clients-draft-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(draft)) })
	require.NoError(t, os.CopyFS(draft, os.DirFS("testdata/clients")))
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = draft
	output, err := install.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, os.Rename(draft, folder))
	return folder
}
