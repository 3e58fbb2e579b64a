package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

// examples/redis-ha: two Traefiks that load the same file, one Redis, and what becomes of the limits when that dies.

// What the example's file says.
const (
	quota    = 500                    // of middleware quota, on /keyed, in a window of an hour for each X-Api-Key
	burst    = 500                    // of middleware flood, on /data, for each address
	refill   = 50                     // of the same, each second
	interval = 200 * time.Millisecond // of the same: how soon gateways hear of each other
	guesses  = 20                     // of middleware guesses, on /login, for each address; another after 6 s
)

// TestRedisStrict has 64 clients at each of two gateways ask for more than there is.
func TestRedisStrict(t *testing.T) {
	gateways := pair(t, startRedis(t, freeAddress(t)), "5s") // however busy this machine is
	for _, key := range []string{"k1", "k2", "k3"} {
		passes, took := crowd{count: 64, requests: 12, path: "/keyed", key: key}.run(t, gateways)
		t.Logf("window: %d of %d passed, %v by gateway, in %v", len(passes), 2*64*12, byGateway(passes), took)
		require.Equal(t, quota, len(passes))
	}

	// A bucket by address goes another way through the plugin.
	passes, took := crowd{count: 64, requests: 4, path: "/login", address: "127.0.3.1"}.run(t, gateways)
	t.Logf("bucket: %d of %d passed, %v by gateway, in %v", len(passes), 2*64*4, byGateway(passes), took)
	require.GreaterOrEqual(t, len(passes), guesses)
	require.LessOrEqual(t, len(passes), guesses+int(took/(6*time.Second)))
	requireNeverDown(t, gateways)
}

// TestRedisAsync holds gateways that decide by themselves to their bound: together they let pass what the limit says, and what the others
// let pass in one interval.
func TestRedisAsync(t *testing.T) {
	gateways := pair(t, startRedis(t, freeAddress(t)), "1s")

	// Slow enough for the gateways to hear of each other a few times before the bucket is empty.
	passes, took := crowd{count: 64, requests: 16, path: "/data", address: "127.0.3.2", pause: 150 * time.Millisecond}.run(t, gateways)
	const noise = 100 * time.Millisecond // exchanges wait for a busy machine as clients do
	excess, bound := excess(passes), mostWithin(passes, interval+noise)
	t.Logf("%d of %d passed, %v by gateway, in %v; %d too many at the worst moment, the bound is %d",
		len(passes), 2*64*16, byGateway(passes), took, excess, bound)
	require.LessOrEqual(t, excess, bound)
	require.Less(t, bound, burst/2, "this bound says little")
	require.GreaterOrEqual(t, len(passes), burst)

	// Who has emptied the bucket at one gateway finds it empty at the other, an interval later.
	began := time.Now()
	one := crowd{count: 8, requests: 80, path: "/data", address: "127.0.3.3"}
	passes, _ = one.run(t, gateways[:1])
	require.GreaterOrEqual(t, len(passes), burst)
	one.requests = 1
	one.run(t, gateways[1:]) // from now on that gateway knows the address
	time.Sleep(interval + noise)
	one.requests = 80
	passes, _ = one.run(t, gateways[1:])
	t.Logf("%d passed at the other gateway", len(passes))
	require.LessOrEqual(t, len(passes), int(refill*time.Since(began).Seconds())+1)
	requireNeverDown(t, gateways)
}

// TestRedisDies kills Redis under load, and starts it again with nothing in it.
func TestRedisDies(t *testing.T) {
	address := freeAddress(t)
	redis := startRedis(t, address)
	gateways := pair(t, redis, "1s")
	a, b := gateways[0], gateways[1]
	ask := func(s *stage, key string, n int) (passed int) {
		t.Helper()
		passes, _ := crowd{count: 1, requests: n, path: "/keyed", key: key}.run(t, []*stage{s})
		return len(passes)
	}

	// Three keys of 200 requests each, of which the gateways know 199 and 200.
	for _, key := range []string{"idle", "some", "all"} {
		require.Equal(t, 200, ask(a, key, 99)+ask(b, key, 99)+ask(a, key, 1)+ask(b, key, 1))
	}
	background := startMix(t, gateways)
	counts, _ := background.during(t, time.Second)
	t.Logf("with Redis: %+v", counts)
	require.Zero(t, counts.others+counts.loginDenied)

	redis.kill()
	counts, _ = background.during(t, 100*time.Millisecond) // in which the gateways notice
	require.Zero(t, counts.others, "neither 200 nor 429, nor 503 from deny")

	// Each goes on with what it knew. One that refuses what it cannot count lets nothing pass.
	counts, _ = background.during(t, 1500*time.Millisecond)
	t.Logf("without Redis: %+v", counts)
	require.Zero(t, counts.others)
	require.Zero(t, counts.loginPassed+counts.loginRefused, "deny")
	require.Positive(t, counts.loginDenied)
	require.Positive(t, counts.passed)
	require.Positive(t, counts.refused)
	require.Equal(t, []int{50, 50}, []int{ask(a, "some", 50), ask(b, "some", 50)})
	require.Equal(t, []int{301, 300}, []int{ask(a, "all", 400), ask(b, "all", 400)})

	startRedis(t, address)
	back := time.Now()
	for _, s := range gateways {
		for _, name := range []string{"quota", "flood", "guesses"} {
			waitFor(t, "the line that Redis is back for "+name, func() bool { return countLines(s, name, "can be used again") > 0 })
		}
	}
	t.Logf("back after %v", time.Since(back))
	time.Sleep(time.Second) // until all debts are told
	background.during(t, 0)
	counts, slowest := background.during(t, time.Second)
	background.stop()
	t.Logf("with Redis again: %+v; the slowest request of all took %v", counts, slowest)
	require.Zero(t, counts.others+counts.loginDenied)
	require.Positive(t, counts.loginPassed+counts.loginRefused)
	require.Less(t, slowest, 3*time.Second)

	// What Redis had counted is lost; what the gateways let pass without it is not.
	require.Equal(t, quota, ask(a, "idle", 300)+ask(b, "idle", 300))
	require.Equal(t, quota-100, ask(a, "some", 300)+ask(b, "some", 300))
	require.Zero(t, ask(a, "all", 10)+ask(b, "all", 10))

	for _, s := range gateways {
		for _, name := range []string{"quota", "flood", "guesses"} {
			require.Equal(t, 1, countLines(s, name, "cannot be used"), name)
			require.Equal(t, 1, countLines(s, name, "can be used again"), name)
		}
	}
}

// TestRedisStalls stops Redis without ending it: it neither answers nor refuses. The file is as it is, and so 50 ms is what a request waits.
func TestRedisStalls(t *testing.T) {
	redis := startRedis(t, freeAddress(t))
	gateways := pair(t, redis, "50ms")
	background := startMix(t, gateways)
	background.during(t, 500*time.Millisecond)
	require.NoError(t, redis.process.Signal(syscall.SIGSTOP))
	background.during(t, time.Second)
	counts, slowest := background.during(t, 500*time.Millisecond)
	t.Logf("stalled: %+v; the slowest request of all took %v", counts, slowest)
	require.Zero(t, counts.others+counts.loginPassed+counts.loginRefused)
	require.Positive(t, counts.passed+counts.refused)
	require.Less(t, slowest, time.Second, "a busy machine included")
	require.NoError(t, redis.process.Signal(syscall.SIGCONT))
	waitFor(t, "Redis to be used again", func() bool {
		counts, _ := background.during(t, 200*time.Millisecond)
		require.Zero(t, counts.others)
		return counts.loginDenied == 0
	})
}

// TestRedisFailover kills a primary whose replica is then promoted. The gateways know both by address and find the one that takes writes; what
// had been replicated still counts.
func TestRedisFailover(t *testing.T) {
	one, two := freeAddress(t), freeAddress(t)
	primary := startRedis(t, one)
	host, port, _ := strings.Cut(one, ":")
	startRedis(t, two, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	waitFor(t, "the replica to be one", func() bool { return strings.Contains(tellRedis(t, two, "INFO replication"), "master_link_status:up") })

	s := start(t, setup{
		dynamic: "examples/redis-ha/dynamic.yml",
		backend: &yes{},
		env:     []string{"REDIS_ADDRESS=" + one},
		change: []string{
			`endpoints: ['{{ env "REDIS_ADDRESS" | default "127.0.0.1:6379" }}']`, `endpoints: ["` + two + `", "` + one + `"]`,
			"timeout: 50ms", "timeout: 1s",
		},
	})
	key := crowd{count: 4, requests: 50, path: "/keyed", key: "replicated"}
	passes, _ := key.run(t, []*stage{s})
	require.Equal(t, 200, len(passes))
	counter := func() string {
		return tellRedis(t, two, `EVAL "return redis.call('GET', redis.call('KEYS', '*quota*')[1])" 0`)
	}
	waitFor(t, "the counter to be replicated", func() bool { return strings.Contains(counter(), " 200 ") })

	primary.kill()
	require.Contains(t, tellRedis(t, two, "REPLICAOF NO ONE"), "OK")
	waitFor(t, "the new primary to count", func() bool {
		status, err := askOnce(http.DefaultClient, s.web+"/login", "")
		require.NoError(t, err)
		return status == http.StatusOK
	})
	passes, _ = key.run(t, []*stage{s, s})
	require.Equal(t, quota-200, len(passes))
	waitFor(t, "the new primary to have counted them", func() bool { return strings.Contains(counter(), " 500 ") })
}

// pair starts two gateways with the example's file, but for how long a request waits for Redis.
func pair(t *testing.T, redis *redisServer, timeout string) []*stage {
	t.Helper()
	var gateways []*stage
	for range 2 {
		gateways = append(gateways, start(t, setup{
			dynamic: "examples/redis-ha/dynamic.yml",
			backend: &yes{},
			env:     []string{"REDIS_ADDRESS=" + redis.address},
			change:  []string{"timeout: 50ms", "timeout: " + timeout},
		}))
	}
	return gateways
}

func countLines(s *stage, middleware, text string) (count int) {
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, "sluice: "+middleware+"@file: redis "+text) {
			count++
		}
	}
	return count
}

func requireNeverDown(t *testing.T, gateways []*stage) {
	t.Helper()
	for _, s := range gateways {
		require.NotContains(t, s.Log(), "redis cannot be used")
	}
}

// redisServer is a real one, of the test's own.
type redisServer struct {
	address string
	process *os.Process
	kill    func()
}

func startRedis(t *testing.T, address string, more ...string) *redisServer {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		missing(t, "redis-server", "Debian: apt-get install redis-server")
	}
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	arguments := []string{"--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir()}
	command := exec.Command(binary, append(arguments, more...)...)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	kill := sync.OnceFunc(func() { // kill -9
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	t.Cleanup(kill)
	lines := bufio.NewScanner(output)
	for ready := false; !ready; ready = strings.Contains(lines.Text(), "Ready to accept connections") {
		require.True(t, lines.Scan(), "redis-server did not start")
	}
	go func() { _, _ = io.Copy(io.Discard, output) }()
	return &redisServer{address: address, process: command.Process, kill: kill}
}

// tellRedis sends one command and returns the answer as it comes.
func tellRedis(t *testing.T, address, command string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = c.Write([]byte(command + "\r\nQUIT\r\n"))
	require.NoError(t, err)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	return string(answer)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := gateway.FreeAddress("127.0.0.1")
	require.NoError(t, err)
	return address
}

// crowd is clients that come to all gateways at once, each with a connection of its own.
type crowd struct {
	count    int // at each gateway
	requests int // of each client, one after another
	path     string
	key      string        // X-Api-Key
	address  string        // from which they come
	pause    time.Duration // of a client after a request
}

// pass is a request that was let pass.
type pass struct {
	gateway    int
	sent, done time.Time
}

// run returns what passed. All the rest was refused.
func (c crowd) run(t *testing.T, gateways []*stage) (passes []pass, took time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var failed []any
	var group sync.WaitGroup
	began := time.Now()
	for g, s := range gateways {
		for range c.count {
			group.Go(func() {
				client := connection(c.address)
				defer client.CloseIdleConnections()
				for range c.requests {
					sent := time.Now()
					status, err := askOnce(client, s.web+c.path, c.key)
					mu.Lock()
					switch {
					case err == nil && status == http.StatusOK:
						passes = append(passes, pass{g, sent, time.Now()})
					case err != nil:
						failed = append(failed, err)
					case status != http.StatusTooManyRequests:
						failed = append(failed, status)
					}
					mu.Unlock()
					time.Sleep(c.pause)
				}
			})
		}
	}
	group.Wait()
	require.Empty(t, failed)
	return passes, time.Since(began)
}

// connection is a client with one connection, from an address of this machine.
func connection(address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}, Timeout: 20 * time.Second}
}

func askOnce(client *http.Client, url, key string) (int, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("X-Api-Key", key)
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

func byGateway(passes []pass) [2]int {
	var count [2]int
	for _, p := range passes {
		count[p.gateway]++
	}
	return count
}

// mostWithin is the most that one gateway can have let pass within any time of that length.
func mostWithin(passes []pass, length time.Duration) (most int) {
	for _, first := range passes {
		most = max(most, len(slices.DeleteFunc(slices.Clone(passes), func(p pass) bool {
			return p.gateway != first.gateway || p.done.Before(first.sent) || p.sent.After(first.sent.Add(length))
		})))
	}
	return most
}

// excess is how many more had passed than middleware flood's bucket had, at the moment when that was worst; negative if it never was so.
func excess(passes []pass) int {
	slices.SortFunc(passes, func(a, b pass) int { return a.done.Compare(b.done) })
	worst := -burst
	for i, p := range passes {
		worst = max(worst, i+1-burst-int(refill*p.done.Sub(passes[0].sent).Seconds()))
	}
	return worst
}

// mix is a load on all the example's routes, at all gateways, that lasts until it is stopped.
type mix struct {
	stop func()

	mu      sync.Mutex
	counts  mixCounts
	slowest time.Duration // ever
}

// mixCounts is how requests ended. Those for /login stand apart.
type mixCounts struct {
	passed, refused                        int
	loginPassed, loginRefused, loginDenied int
	others                                 int
}

func startMix(t *testing.T, gateways []*stage) *mix {
	t.Helper()
	m := &mix{}
	done := make(chan struct{})
	var group sync.WaitGroup
	for _, s := range gateways {
		for _, path := range []string{"/keyed", "/data", "/login"} {
			for range 4 {
				group.Go(func() {
					client := connection("127.0.3.9")
					defer client.CloseIdleConnections()
					for {
						sent := time.Now()
						status, err := askOnce(client, s.web+path, "mix")
						m.note(path, status, err, time.Since(sent))
						select {
						case <-done:
							return
						case <-time.After(10 * time.Millisecond):
						}
					}
				})
			}
		}
	}
	m.stop = sync.OnceFunc(func() {
		close(done)
		group.Wait()
	})
	t.Cleanup(m.stop)
	return m
}

func (m *mix) note(path string, status int, err error, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slowest = max(m.slowest, took)
	login := path == "/login"
	switch {
	case err != nil:
		m.counts.others++
	case status == http.StatusOK && login:
		m.counts.loginPassed++
	case status == http.StatusTooManyRequests && login:
		m.counts.loginRefused++
	case status == http.StatusServiceUnavailable && login:
		m.counts.loginDenied++
	case status == http.StatusOK:
		m.counts.passed++
	case status == http.StatusTooManyRequests:
		m.counts.refused++
	default:
		m.counts.others++
	}
}

// during waits so long and returns how requests ended that did so since the last time.
func (m *mix) during(t *testing.T, length time.Duration) (mixCounts, time.Duration) {
	t.Helper()
	time.Sleep(length)
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := m.counts
	m.counts = mixCounts{}
	return counts, m.slowest
}
