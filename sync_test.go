package sluice

import (
	"sort"
	"sync"
	"testing"
	"time"
)

// hammer sends requests of one key to each gateway from several clients at once, for so long, and returns when each
// gateway let one pass.
func hammer(gateways []*gateway, clients int, pause, long time.Duration) [][]time.Duration {
	times := make([][]time.Duration, len(gateways))
	begin := time.Now()
	var mu sync.Mutex
	var group sync.WaitGroup
	for i, g := range gateways {
		for client := 0; client < clients; client++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for time.Since(begin) < long {
					at := time.Since(begin)
					if ok, _ := g.ask("k"); ok {
						mu.Lock()
						times[i] = append(times[i], at)
						mu.Unlock()
					}
					time.Sleep(pause)
				}
			}()
		}
	}
	group.Wait()
	return times
}

// most is the most of these times that are in any span of this length.
func most(times []time.Duration, span time.Duration) int {
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	most, from := 0, 0
	for to := range times {
		for times[to]-times[from] > span {
			from++
		}
		if n := to - from + 1; n > most {
			most = n
		}
	}
	return most
}

// The stated bound: the limit, and what each gateway lets pass in one interval.
func TestAsyncBound(t *testing.T) {
	r := startRedis(t)
	config := &RedisConfig{Endpoints: []string{r.address}, Mode: "async", SyncInterval: "100ms", Timeout: "5s"}
	const limit = 600
	for name, p := range map[string]*policy{"window": newWindow(limit, hour, false), "bucket": newBucket(decimal{1, 1}, hour, limit, false)} {
		t.Run(name, func(t *testing.T) {
			tell(t, r, "FLUSHALL")
			gateways := []*gateway{newGateway(t, config, p), newGateway(t, config, p), newGateway(t, config, p)}
			times := hammer(gateways, 4, 5*time.Millisecond, 1500*time.Millisecond)
			total, bound := 0, limit
			for _, at := range times {
				total += len(at)
				bound += most(at, 100*time.Millisecond+50*time.Millisecond) // an interval and, on a busy machine, a round trip
			}
			t.Logf("%d passed, the bound is %d", total, bound)
			if total < limit || total > bound {
				t.Errorf("%d passed, want %d to %d", total, limit, bound)
			}
		})
	}
}

// Over longer times the rate is the limit's, though each gateway alone would let pass all of it, and the bucket is
// smaller than what an interval brings.
func TestAsyncRate(t *testing.T) {
	r := startRedis(t)
	config := &RedisConfig{Endpoints: []string{r.address}, Mode: "async", SyncInterval: "100ms", Timeout: "5s"}
	for name, p := range map[string]*policy{
		"burst":    newBucket(decimal{100, 1}, second, 50, false),
		"no burst": newBucket(decimal{100, 1}, second, 2, false),
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, r, "FLUSHALL")
			gateways := []*gateway{newGateway(t, config, p), newGateway(t, config, p)}
			begin := time.Now()
			times := hammer(gateways, 3, 3*time.Millisecond, 3*time.Second)
			allowed := p.size + int64(time.Since(begin)/(10*time.Millisecond))
			total := int64(len(times[0]) + len(times[1]))
			t.Logf("%d passed, a single gateway would have let pass %d", total, allowed)
			if total > allowed+allowed/10+10 || total < allowed/2 {
				t.Errorf("%d passed, want about %d", total, allowed)
			}
		})
	}
}

// A single gateway is as exact in mode async as without a store, but for how much one round trip takes longer than
// another: what it learns is what it told.
func TestAsyncAlone(t *testing.T) {
	r := startRedis(t)
	config := &RedisConfig{Endpoints: []string{r.address}, Mode: "async", SyncInterval: "50ms", Timeout: "5s"}
	p := newBucket(decimal{5, 1}, second, 3, false)
	g := newGateway(t, config, p)
	begin := time.Now()
	passed := 0
	for i := 0; i < 15; i++ {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * 210 * time.Millisecond))) // a little slower than the limit
		passed += g.passes(1, "k")
	}
	if passed != 15 {
		t.Errorf("%d of 15 requests below the limit's rate passed", passed)
	}
	left := 3 - g.passes(6, "k")
	if took := time.Since(begin); left < 0 && int64(passed-left) > int64(took)/p.token {
		t.Errorf("more passed than the limit allows")
	}
}

// Many keys are told in as many calls as it takes, and nothing is due when nothing is owed.
func TestAsyncManyKeys(t *testing.T) {
	r := startRedis(t)
	config := &RedisConfig{Endpoints: []string{r.address}, Mode: "async", SyncInterval: "20ms", Timeout: "5s"}
	a, b := newGateway(t, config, newWindow(3, hour, false)), newGateway(t, config, newWindow(3, hour, false))
	for i := 0; i < 300; i++ {
		a.passes(2, string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	until(t, "debts are told", func() bool { return a.owes() == 0 && !a.isDue() })
	for i := 0; i < 300; i++ {
		b.passes(1, string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	until(t, "the other gateway knows", func() bool { return b.owes() == 0 && !b.isDue() })
	time.Sleep(20 * time.Millisecond)
	for i := 0; i < 300; i++ {
		if n := b.passes(2, string(rune('a'+i%26))+string(rune('a'+i/26))); n != 0 {
			t.Fatalf("key %d: %d passed, want none", i, n)
		}
	}
}

func (g *gateway) isDue() bool {
	b := g.sharing.ledger
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.due
}
