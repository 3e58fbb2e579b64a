package sluice

import (
	"bytes"
	"log"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gateway is one of several processes that share limits: it has counters and connections of its own.
type gateway struct {
	sharing *sharing
	limits  []*limit
}

var gateways atomic.Int64

// newGateway starts a gateway of the middleware "m". The policies are those of its limits l0, l1 and so on.
func newGateway(t testing.TB, config *RedisConfig, policies ...*policy) *gateway {
	t.Helper()
	s, err := compileRedis(config, "m")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{sharing: s}
	for i, p := range policies {
		n := &numbers{policy: p, life: p.full, maxKeys: 1000}
		g.limits = append(g.limits, &limit{name: "l" + strconv.Itoa(i), parts: []keyPart{{source: fromIP}}, cost: 1,
			logging: &logging{off: true}, numbers: n, table: &table{order: i, numbers: n}})
	}
	if err := shareLimits(s, g.limits, "m"+strconv.FormatInt(gateways.Add(1), 10)); err != nil {
		t.Fatal(err)
	}
	return g
}

// ask sends a request of a client, and says whether it passed, and where the client stands.
func (g *gateway) ask(key string) (passed bool, charges []*charge) {
	for _, l := range g.limits {
		charges = append(charges, &charge{limit: l, key: key, cost: 1})
	}
	refusal, _ := chargeShared(g.sharing, charges, int64(time.Since(start)))
	return refusal == nil, charges
}

// passes is how many of so many requests passed, one after another.
func (g *gateway) passes(count int, key string) (passed int) {
	for i := 0; i < count; i++ {
		if ok, _ := g.ask(key); ok {
			passed++
		}
	}
	return passed
}

// until waits for a condition.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("in vain: ", what)
		}
	}
}

func (g *gateway) isDown() bool {
	p := g.sharing.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down
}

func (g *gateway) owes() int {
	b := g.sharing.ledger
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.owed) + len(b.older)
}

// captureLog returns what is logged while the test runs.
func captureLog(t testing.TB) func() string {
	var mu sync.Mutex
	var text bytes.Buffer
	before := log.Writer()
	t.Cleanup(func() { log.SetOutput(before) })
	log.SetOutput(writerFunc(func(line []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(line)
	}))
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(line []byte) (int, error) { return f(line) }

// Two gateways under load let pass exactly what one would.
func TestStrictIsExactOverGateways(t *testing.T) {
	r := startRedis(t)
	config := &RedisConfig{Endpoints: []string{r.address}, Timeout: "10s"}
	window, bucket := newWindow(1000, 3600*second, false), newBucket(decimal{1, 1}, 3600*second, 700, false)
	for name, policies := range map[string][]*policy{"window": {window}, "bucket": {bucket}, "both": {bucket, window}} {
		t.Run(name, func(t *testing.T) {
			tell(t, r, "FLUSHALL")
			var passed atomic.Int64
			var group sync.WaitGroup
			for i := 0; i < 2; i++ {
				g := newGateway(t, config, policies...)
				for client := 0; client < 64; client++ {
					group.Add(1)
					go func() {
						defer group.Done()
						passed.Add(int64(g.passes(20, "k")))
					}()
				}
			}
			group.Wait()
			want := policies[0].size
			if passed.Load() != want {
				t.Errorf("%d passed, want %d", passed.Load(), want)
			}
		})
	}
}

// The numbers that a response shows are the store's, not the gateway's own.
func TestStrictTellsWhatOthersLeft(t *testing.T) {
	r := startRedis(t)
	config := &RedisConfig{Endpoints: []string{r.address}, Timeout: "10s"}
	p := newBucket(decimal{1, 1}, 3600*second, 10, false)
	a, b := newGateway(t, config, p), newGateway(t, config, p)
	for i := int64(0); i < 10; i += 2 {
		if _, charges := a.ask("k"); charges[0].left != 9-i {
			t.Errorf("%d left, want %d", charges[0].left, 9-i)
		}
		if _, charges := b.ask("k"); charges[0].left != 8-i || charges[0].next > 3600*second || charges[0].next < 3599*second {
			t.Errorf("%d left, want %d; next in %d", charges[0].left, 8-i, charges[0].next)
		}
	}
	ok, charges := a.ask("k")
	if wait := charges[0].wait; ok || wait > 3600*second || wait < 3599*second {
		t.Errorf("passed %v, waits %d", ok, wait)
	}
}

// A server that forgets its scripts is told them again.
func TestScriptFlush(t *testing.T) {
	r := startRedis(t)
	g := newGateway(t, &RedisConfig{Endpoints: []string{r.address}, Timeout: "10s"}, newWindow(3, 3600*second, false))
	for i := 0; i < 3; i++ {
		tell(t, r, "SCRIPT", "FLUSH")
		if ok, _ := g.ask("k"); !ok {
			t.Error("refused")
		}
	}
	if ok, _ := g.ask("k"); ok {
		t.Error("passed")
	}
}

// A server that dies costs a request no more than the timeout and afterwards nothing; each gateway goes on from what
// it knew; when the server is back, empty, it is told what was counted meanwhile, and everything is said once in the
// log.
func TestOutage(t *testing.T) {
	said := captureLog(t)
	port := freePort(t)
	r := startRedisAt(t, port)
	g := newGateway(t, &RedisConfig{Endpoints: []string{r.address}, SyncInterval: "20ms"}, newWindow(10, 3600*second, false))
	if n := g.passes(4, "k"); n != 4 {
		t.Fatal(n)
	}
	stopRedis(r)
	slowest := time.Duration(0)
	passed := 0
	for i := 0; i < 200; i++ {
		before := time.Now()
		passed += g.passes(1, "k")
		if took := time.Since(before); took > slowest {
			slowest = took
		}
	}
	if passed != 6 {
		t.Errorf("%d passed during the outage, want the 6 that were left", passed)
	}
	if slowest > 100*time.Millisecond {
		t.Errorf("a request took %v", slowest)
	}
	g.passes(3, "other")
	startRedisAt(t, port)
	until(t, "the server is found again", func() bool { return !g.isDown() })
	until(t, "debts are told", func() bool { return g.owes() == 0 })
	if n := g.passes(10, "k"); n != 4 {
		t.Errorf("%d passed, want 4: the server lost 4 of 10 and was told the 6 since", n)
	}
	if n := g.passes(10, "other"); n != 7 {
		t.Errorf("%d passed, want 7", n)
	}
	text := said()
	if strings.Count(text, "cannot be used") != 1 || strings.Count(text, "can be used again") != 1 {
		t.Errorf("the log says:\n%s", text)
	}
}

// Clients that keep well below the limit notice nothing of an outage, neither when it begins nor when what they took
// is settled.
func TestOutageIsNotNoticed(t *testing.T) {
	captureLog(t)
	port := freePort(t)
	r := startRedisAt(t, port)
	g := newGateway(t, &RedisConfig{Endpoints: []string{r.address}}, newBucket(decimal{10000, 1}, second, 10000, false))
	var refused atomic.Int64
	var group sync.WaitGroup
	begin := time.Now()
	for client := 0; client < 16; client++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for time.Since(begin) < 2500*time.Millisecond {
				if ok, _ := g.ask("k"); !ok {
					refused.Add(1)
				}
				time.Sleep(2 * time.Millisecond)
			}
		}()
	}
	time.Sleep(300 * time.Millisecond)
	stopRedis(r)
	time.Sleep(1500 * time.Millisecond)
	startRedisAt(t, port)
	group.Wait()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d were refused", n)
	}
}
