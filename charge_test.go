package sluice

import (
	"math/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limitsOf is limits of these policies, each with a table of its own.
func limitsOf(policies ...*policy) []*limit {
	var limits []*limit
	for i, p := range policies {
		t := tableOf(p, 1000)
		t.order = i
		limits = append(limits, &limit{table: t, logging: &logging{off: true}})
	}
	return limits
}

// charges is a charge of one key to each limit.
func charges(limits []*limit, cost int64, keys ...string) []*charge {
	var all []*charge
	for i, l := range limits {
		all = append(all, &charge{limit: l, key: keys[i], cost: cost})
	}
	return all
}

// TestAllLimitsOrNone: a request is allowed if every limit has room, and charged to all of them; or else it is
// charged to none.
func TestAllLimitsOrNone(t *testing.T) {
	random := rand.New(rand.NewSource(20))
	for run := 0; run < 200; run++ {
		var policies []*policy
		cost := int64(1 + random.Intn(3))
		for len(policies) < 3 {
			if p := randomPolicy(random); p.size >= cost {
				policies = append(policies, p)
			}
		}
		limits := limitsOf(policies...)
		model := map[string]*counter{}
		now := random.Int63n(1 << 40)
		chargeAll(charges(limits, 0, "first", "first", "first"), now) // it reads the wall clock
		for i := 0; i < 60; i++ {
			now += step(random, policies[random.Intn(3)])
			keys := []string{strconv.Itoa(random.Intn(2)), strconv.Itoa(random.Intn(3)), "all"}
			fits := true
			var counters []*counter
			for j, p := range policies {
				id := strconv.Itoa(j) + " " + keys[j]
				if model[id] == nil {
					model[id] = &counter{at: now, policy: p}
				}
				c := model[id]
				settle(c, now, limits[j].table.epoch)
				fits = fits && waitFor(c, cost*p.token, now) == 0
				counters = append(counters, c)
			}
			if fits {
				for j, c := range counters {
					take(c, cost*policies[j].token)
				}
			}
			made := charges(limits, cost, keys...)
			refusal := chargeAll(made, now)
			require.Equal(t, fits, refusal == nil, "run %d, request %d", run, i)
			for j, ch := range made {
				require.Equal(t, spent(counters[j], now), spent(ch.counter, now), "run %d, request %d, limit %d", run, i, j)
				if refusal != nil {
					require.GreaterOrEqual(t, refusal.wait, waitFor(counters[j], cost*policies[j].token, now), "the refusal is the one that has longest to wait")
				}
			}
		}
	}
}

// TestRetryAfterIsKept: after that many seconds the refused request passes; it is no more than rounding above the
// wait, and at least 1.
func TestRetryAfterIsKept(t *testing.T) {
	random := rand.New(rand.NewSource(21))
	refused := 0
	for run := 0; run < 500; run++ {
		p := randomPolicy(random)
		limits := limitsOf(p)
		now := random.Int63n(1 << 40)
		for i := 0; i < 20; i++ {
			now += step(random, p) / 4
			cost := 1 + random.Int63n(p.size)
			refusal := chargeAll(charges(limits, cost, "a"), now)
			if refusal == nil {
				continue
			}
			refused++
			seconds := retryAfter(refusal.wait)
			require.GreaterOrEqual(t, seconds, int64(1))
			if seconds > 1 {
				require.Greater(t, refusal.wait, (seconds-1)*second)
			}
			if random.Intn(3) == 0 {
				now += seconds * second
				require.Nil(t, chargeAll(charges(limits, cost, "a"), now), "run %d: not after %d s, %+v", run, seconds, p)
			}
		}
	}
	require.Greater(t, refused, 1000)
}

func TestRetryAfterRows(t *testing.T) {
	for wait, want := range map[int64]int64{1: 1, second - 1: 1, second: 1, second + 1: 2, 2 * second: 2, maxUnits: 2305843010} {
		require.Equal(t, want, retryAfter(wait), time.Duration(wait))
	}
}

// TestConcurrentChargesAreExact: however many ask at once, what passes is what the limits allow, no more and no less.
func TestConcurrentChargesAreExact(t *testing.T) {
	const callers, calls = 64, 60
	for _, row := range []struct {
		total, each int64
		keys        int
		want        int64
	}{
		{total: 200, each: 30, keys: 10, want: 200}, // the limit for all is the tighter one
		{total: 200, each: 30, keys: 5, want: 150},  // the limit for each
		{total: 1, each: 1, keys: 64, want: 1},
	} {
		limits := limitsOf(newWindow(row.each, int64(time.Hour), false), bucket(t, "1", 24*time.Hour, row.total, false))
		var allowed atomic.Int64
		byKey := make([]atomic.Int64, row.keys)
		var all sync.WaitGroup
		for i := 0; i < callers; i++ {
			all.Add(1)
			go func(key int) {
				defer all.Done()
				for j := 0; j < calls; j++ {
					if chargeAll(charges(limits, 1, strconv.Itoa(key), "all"), int64(time.Since(start))) == nil {
						allowed.Add(1)
						byKey[key].Add(1)
					}
				}
			}(i % row.keys)
		}
		all.Wait()
		require.Equal(t, row.want, allowed.Load())
		for key := range byKey {
			require.LessOrEqual(t, byKey[key].Load(), row.each)
		}
	}
}

// TestLocksAreTakenInOneOrder: when a reload moves limits about, handlers with the old order and the new one must not
// wait for each other.
func TestLocksAreTakenInOneOrder(t *testing.T) {
	name := unused(t)
	a := LimitConfig{Name: "a", Requests: "10", Window: "1h"}
	b := LimitConfig{Name: "b", Requests: "10", Window: "1h"}
	for _, order := range [][]LimitConfig{{a, b}, {b, a}} {
		r, err := rulesFor(name, &Config{Limits: order})
		require.NoError(t, err)
		first, second := r.limits[0].table, r.limits[1].table
		if first.order > second.order {
			first, second = second, first
		}
		first.mu.Lock()
		done := make(chan struct{})
		go func() {
			chargeAll(charges(r.limits, 1, "k", "k"), int64(time.Since(start)))
			close(done)
		}()
		time.Sleep(20 * time.Millisecond) // by now it waits for the lock
		require.True(t, second.mu.TryLock(), "it took the second lock before the first")
		second.mu.Unlock()
		first.mu.Unlock()
		<-done
	}
}
