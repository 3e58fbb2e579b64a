package sluice_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The option redis from outside, against a real server. Like plugin_test.go, these tests run compiled here and
// interpreted in e2e/interpreted.

// serverAt starts a redis-server on a port of 127.0.0.1 ("" for a free one) and returns its address, and what kills
// it.
func serverAt(t testing.TB, port string) (address string, kill func()) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out what needs a real redis-server")
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("redis-server is missing, and CI is to test everything")
	}
	if err != nil {
		t.Skip("SKIPPED FOR LACK OF redis-server (Debian has it in the package of that name): nothing here was tested against a real server")
	}
	if port == "" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		_, port, _ = net.SplitHostPort(listener.Addr().String())
		_ = listener.Close()
	}
	process := exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	require.NoError(t, process.Start())
	kill = sync.OnceFunc(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	t.Cleanup(kill)
	address = "127.0.0.1:" + port
	require.Eventually(t, func() bool { return say(address, "PING") == "+PONG" }, 10*time.Second, 5*time.Millisecond)
	return address, kill
}

// say sends a server a command of one line and returns the first line of its answer.
func say(address, line string) string {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(conn, line+"\r\n")
	answer := make([]byte, 200)
	n, _ := conn.Read(answer)
	for i, b := range answer[:n] {
		if b == '\r' {
			return string(answer[:i])
		}
	}
	return string(answer[:n])
}

func TestSharedLimitsOfEveryAlgorithm(t *testing.T) {
	address, _ := serverAt(t, "")
	for name, o := range everyAlgorithm {
		t.Run(name, func(t *testing.T) {
			shared := options{"redis": options{"endpoints": address, "timeout": "10s"}}
			for option, value := range o {
				shared[option] = value
			}
			h := limited(t, shared)
			require.Equal(t, []int{200, 200, 429, 429}, statuses(h, 4, alice))
			require.Equal(t, []int{200, 200, 429}, statuses(h, 3, bob))
			require.Equal(t, "+OK", say(address, "FLUSHALL"))
			require.Equal(t, []int{200, 200, 429}, statuses(h, 3, alice), "the server's counters decide")
			require.Equal(t, "+OK", say(address, "SCRIPT FLUSH"))
			require.Equal(t, []int{429}, statuses(h, 1, alice), "a server that forgot the script has not forgotten the counters")
		})
	}
}

func TestSharedLimitsUnderLoad(t *testing.T) {
	address, _ := serverAt(t, "")
	h := limited(t, options{
		"redis":  options{"endpoints": address, "timeout": "10s"},
		"limits": []any{options{"average": 1, "period": "10h", "burst": 300}, options{"requests": 500, "window": "10h"}},
	})
	var passed atomic.Int64
	var group sync.WaitGroup
	for client := 0; client < 64; client++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 10; i++ {
				if send(h, request(alice)).StatusCode == http.StatusOK {
					passed.Add(1)
				}
			}
		}()
	}
	group.Wait()
	require.EqualValues(t, 300, passed.Load())
	// The refused were charged to neither limit: of the window 200 requests are left.
	require.Equal(t, "*2", say(address, "KEYS *:limit-*"))
}

func TestSharedCostsAndSecretKeys(t *testing.T) {
	address, _ := serverAt(t, "")
	h := limited(t, options{
		"redis":  options{"endpoints": address, "timeout": "10s", "prefix": "mine"},
		"limits": []any{options{"requests": 5, "window": "1h", "cost": 2, "key": "header:X-Token", "overrides": []any{options{"key": "gold", "unlimited": true}}}},
	})
	require.Equal(t, []int{200, 200, 429}, statuses(h, 3, alice, "X-Token", "swordfish"))
	require.Equal(t, []int{200, 200, 200, 200}, statuses(h, 4, alice, "X-Token", "gold"))
	response := send(h, request(alice, "X-Token", "other"))
	require.Equal(t, "3", response.Header.Get("X-Ratelimit-Remaining"))
	require.Equal(t, "*2", say(address, "KEYS *:limit-*"), "nothing is kept of a key without a limit")
	require.Equal(t, "*0", say(address, "KEYS *swordfish*"))
	require.Equal(t, "*2", say(address, "KEYS mine:{*}:limit-1:*"))
}

func TestOutageFromOutside(t *testing.T) {
	for onFailure, want := range map[string][]int{
		"":      {200, 429, 429, 429},
		"local": {200, 429, 429, 429},
		"allow": {200, 200, 200, 200},
		"deny":  {503, 503, 503, 503},
	} {
		t.Run("onFailure "+onFailure, func(t *testing.T) {
			address, kill := serverAt(t, "")
			h := limited(t, options{
				"redis":  options{"endpoints": []any{address}, "onFailure": onFailure, "syncInterval": "20ms", "timeout": "500ms"},
				"limits": []any{options{"requests": 2, "window": "10h"}},
			})
			require.Equal(t, []int{200}, statuses(h, 1, alice))
			kill()
			require.Equal(t, want, statuses(h, 4, alice))
			_, port, _ := net.SplitHostPort(address)
			serverAt(t, port)
			// The new server knows nothing, unless it was told what was counted in between.
			require.Eventually(t, func() bool {
				return say(address, "KEYS *:limit-*") != "*0" || send(h, request(bob)).Header.Get("X-Ratelimit-Remaining") == "0"
			},
				20*time.Second, 10*time.Millisecond)
			if want[0] == 503 {
				require.Eventually(t, func() bool { return send(h, request("192.0.2.3:1")).StatusCode == 200 }, 20*time.Second, 10*time.Millisecond)
			}
		})
	}
}

func TestDenied(t *testing.T) {
	h := limited(t, options{"average": 1, "redis": options{"endpoints": "127.0.0.1:1", "onFailure": "deny"}})
	response := send(h, request(alice))
	body, _ := io.ReadAll(response.Body)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, "1", response.Header.Get("Retry-After"))
	require.Contains(t, string(body), "cannot be checked")
	require.Empty(t, response.Header.Get("X-Ratelimit-Remaining"))
}

// A server that accepts connections and says nothing costs a request its timeout once.
func TestSilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	h := limited(t, options{"average": 1, "period": "1h", "redis": options{"endpoints": listener.Addr().String(), "timeout": "500ms"}})
	before := time.Now()
	require.Equal(t, []int{200, 429, 429, 429, 429, 429, 429, 429}, statuses(h, 8, alice))
	require.Less(t, time.Since(before), 1500*time.Millisecond, "one timeout, and noise")
}

func TestAsyncLearnsFromOthers(t *testing.T) {
	address, _ := serverAt(t, "")
	h := limited(t, options{
		"redis":  options{"endpoints": address, "mode": "async", "syncInterval": "10ms"},
		"limits": []any{options{"requests": 100, "window": "10h"}},
	})
	require.Equal(t, []int{200}, statuses(h, 1, alice))
	require.Eventually(t, func() bool { return say(address, "KEYS *:limit-*") == "*1" }, 10*time.Second, 5*time.Millisecond)
	// Another gateway takes the rest: in the store's one counter, "at spent kind token", spent is put to 98.
	script := `EVAL "local k = redis.call('KEYS', '*:limit-*')[1] local v = redis.call('GET', k) ` +
		`return redis.call('SET', k, (string.gsub(v, ' 1 2 1', ' 98 2 1')), 'KEEPTTL')" 0`
	require.Equal(t, "+OK", say(address, script))
	require.Equal(t, []int{200}, statuses(h, 1, alice))
	require.Eventually(t, func() bool { return send(h, request(alice)).Header.Get("X-Ratelimit-Remaining") == "0" }, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, []int{429}, statuses(h, 1, alice))
}

func TestRedisMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nothing.pem")
	require.NoError(t, os.WriteFile(file, []byte("nothing"), 0o600))
	for want, redis := range map[string]options{
		`sluice: redis.endpoints: "redis://redis:6379" is not host:port; write such as redis:6379, without a scheme`:                           {"endpoints": "redis://redis:6379"},
		`sluice: redis.endpoints: "redis" is not host:port; write such as redis:6379, without a scheme`:                                        {"endpoints": "redis"},
		`sluice: redis.endpoints: "redis:0" is not host:port; write such as redis:6379, without a scheme`:                                      {"endpoints": "a:1,redis:0"},
		`sluice: redis.mode: "fast" is neither strict nor async; write strict or async`:                                                        {"mode": "fast"},
		`sluice: redis.onFailure: "open" is none of local, allow and deny; write local, allow or deny`:                                         {"onFailure": "open"},
		`sluice: redis.onFailure: "deny" is for mode strict: in mode async a gateway always decides alone; write local, or mode: strict`:       {"onFailure": "deny", "mode": "async"},
		`sluice: redis.timeout: "soon" is not a duration; write a duration, such as 10s, 1m30s or 24h`:                                         {"timeout": "soon"},
		`sluice: redis.dialTimeout: "0" must be more than 0; write a duration, such as 10s, 1m30s or 24h`:                                      {"dialTimeout": "0"},
		`sluice: redis.syncInterval: "-1s" must be more than 0; write a duration, such as 10s, 1m30s or 24h`:                                   {"syncInterval": "-1s"},
		`sluice: redis.poolSize: "0" must be more than 0; write a whole number, such as 4`:                                                     {"poolSize": 0},
		`sluice: redis.poolSize: "1001" is more than 1000; write the most connections to open, such as 4`:                                      {"poolSize": 1001},
		`sluice: redis.db: "one" is not a number; write a whole number, such as 0`:                                                             {"db": "one"},
		`sluice: redis.prefix: "a{b}" has braces, which say where a cluster keeps a key; write a prefix without them, such as sluice`:          {"prefix": "a{b}"},
		`sluice: redis.username: "me" has no password; write password, passwordFile or passwordEnv beside it`:                                  {"username": "me"},
		`sluice: redis has several of password, passwordFile and passwordEnv; keep one`:                                                        {"password": "a", "passwordEnv": "B"},
		`sluice: redis.passwordEnv: "SLUICE_NO_SUCH" is not set; write the name of a variable in Traefik's environment`:                        {"passwordEnv": "SLUICE_NO_SUCH"},
		`sluice: redis.passwordFile: "/no/such" cannot be read (open /no/such: no such file or directory); write a file that Traefik may read`: {"passwordFile": "/no/such"},
		`sluice: redis.password is the name of a Kubernetes secret, which only Traefik's Kubernetes providers look up; write passwordFile or passwordEnv`: {
			"password": "urn:k8s:secret:redis:password"},
		`sluice: redis.tls.ca has no certificate; write PEM, or the name of a file that has it`: {"tls": options{"ca": file}},
		`sluice: redis.tls.ca: "/no/such" is neither PEM nor a file that can be read (open /no/such: no such file or directory); write PEM, or the name of a file that has it`: {
			"tls": options{"ca": "/no/such"}},
		`sluice: redis.tls has only one of cert and key; write both or none`:                             {"tls": options{"cert": file}},
		`sluice: redis.tls.insecureSkipVerify: "perhaps" is neither true nor false; write true or false`: {"tls": options{"insecureSkipVerify": "perhaps"}},
	} {
		_, err := build(options{"average": 1, "redis": redis}, service, fresh(t))
		require.EqualError(t, err, want)
	}
	_, err := build(options{"average": 1, "redis": options{"endpoint": "a:1"}}, service, fresh(t))
	require.ErrorContains(t, err, "redis.endpoint")
	require.ErrorContains(t, err, "endpoints")

	for want, limit := range map[string]options{
		"sluice: the limit limit-1 cannot be shared through redis: it has a window or period shorter than redis.syncInterval, so that it is over before the others hear of it; write mode: strict": {
			"requests": 5, "window": "100ms"},
		"sluice: the limit limit-1 cannot be shared through redis: it has a period that is not in whole microseconds": {"requests": 5, "window": "1000000500ns"},
	} {
		_, err := build(options{"limits": []any{limit}, "redis": options{"mode": "async"}}, service, fresh(t))
		require.EqualError(t, err, want)
	}
}

// BenchmarkStrict is a request that asks a server on this machine, from so many clients at once.
func BenchmarkStrict(b *testing.B) {
	address, _ := serverAt(b, "")
	for _, clients := range []int{1, 64} {
		b.Run(strconv.Itoa(clients)+" clients", func(b *testing.B) {
			h := limited(b, options{"average": 1_000_000_000, "burst": 1_000_000_000, "redis": options{"endpoints": address, "timeout": "10s"}})
			var left atomic.Int64
			left.Store(int64(b.N))
			var group sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for client := 0; client < clients; client++ {
				group.Add(1)
				go func() {
					defer group.Done()
					for left.Add(-1) >= 0 {
						send(h, request(alice))
					}
				}()
			}
			group.Wait()
		})
	}
}
