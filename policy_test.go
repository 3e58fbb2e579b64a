package sluice

import (
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"
)

// randomPolicy is a policy of any kind.
func randomPolicy(random *rand.Rand) *policy {
	switch random.Intn(4) {
	case 0:
		p, _, _ := randomBucket(random, false)
		return p
	case 1:
		p, _, _ := randomBucket(random, true)
		return p
	}
	return newWindow(1+random.Int63n(20), 1000+random.Int63n(1<<40), random.Intn(2) == 0)
}

// TestWaitsAreExact: what waitFor promises is true to the nanosecond, and so is waitFull.
func TestWaitsAreExact(t *testing.T) {
	random := rand.New(rand.NewSource(4))
	for run := 0; run < 2000; run++ {
		p, epoch := randomPolicy(random), random.Int63n(1<<60)
		now := random.Int63n(1 << 40)
		c := &counter{at: now, policy: p}
		for i := 0; i < 10; i++ {
			try(c, p.token*(1+random.Int63n(p.size)), now, epoch)
			now += step(random, p)
		}
		settle(c, now, epoch)
		units := p.token * (1 + random.Int63n(p.size))
		if wait := waitFor(c, units, now); wait > 0 {
			early, late := *c, *c
			require.False(t, try(&early, units, now+wait-1, epoch), "allowed before its time: %+v", p)
			require.True(t, try(&late, units, now+wait, epoch), "refused at its time: %+v", p)
		}
		full := waitFull(c, now)
		require.LessOrEqual(t, full, p.full, "a counter outlives its policy's life")
		later := *c
		settle(&later, now+full, epoch)
		require.Equal(t, p.size, remaining(&later, now+full))
		if full > 0 {
			early := *c
			settle(&early, now+full-1, epoch)
			require.Positive(t, spent(&early, now+full-1))
		}
		if reset := waitReset(c, now); reset > 0 {
			before, after := *c, *c
			settle(&before, now+reset-1, epoch)
			settle(&after, now+reset, epoch)
			require.Equal(t, remaining(c, now), remaining(&before, now+reset-1), "better before its time: %+v", p)
			if p.kind == intervalBucket { // which may get back less than a whole token
				require.Less(t, spent(&after, now+reset), spent(c, now))
			} else {
				require.Greater(t, remaining(&after, now+reset), remaining(c, now), "not better at its time: %+v", p)
			}
		} else {
			require.Equal(t, p.size, remaining(c, now))
		}
	}
}

// TestRefusedRequestChangesNothing: whatever comes after it is decided as if it had not been.
func TestRefusedRequestChangesNothing(t *testing.T) {
	random := rand.New(rand.NewSource(5))
	for run := 0; run < 500; run++ {
		p, epoch := randomPolicy(random), random.Int63n(1<<60)
		now := random.Int63n(1 << 40)
		asked, spared := &counter{at: now, policy: p}, &counter{at: now, policy: p}
		for i := 0; i < 60; i++ {
			now += step(random, p)
			units := p.token * (1 + random.Int63n(p.size))
			if try(asked, units, now, epoch) {
				require.True(t, try(spared, units, now, epoch), "run %d, request %d of %+v", run, i, p)
			}
		}
		settle(asked, now, epoch)
		settle(spared, now, epoch)
		require.Equal(t, spent(spared, now), spent(asked, now))
		require.Equal(t, waitFull(spared, now), waitFull(asked, now))
	}
}

// TestEarlierClockIsHarmless: of two requests one may read the clock first and get the lock second. It then sees the
// counter as the other left it, gets nothing that it would not get at the later time, and what it is told about
// itself is no nonsense.
func TestEarlierClockIsHarmless(t *testing.T) {
	random := rand.New(rand.NewSource(6))
	for run := 0; run < 200; run++ {
		p, epoch := randomPolicy(random), random.Int63n(1<<60)
		now := int64(1<<41) + random.Int63n(1<<40)
		c := &counter{at: now, policy: p}
		for i := 0; i < 60; i++ {
			now += step(random, p)
			units := p.token * (1 + random.Int63n(p.size))
			settle(c, now, epoch)
			settled := *c
			early := now - random.Int63n(2*p.period)
			settle(c, early, epoch)
			require.Equal(t, settled, *c, "run %d, request %d", run, i)
			for _, answer := range []int64{remaining(c, early), waitReset(c, early), waitFull(c, early), waitFor(c, units, early)} {
				require.GreaterOrEqual(t, answer, int64(0), "run %d, request %d of %+v", run, i, p)
			}
			if try(c, units, early, epoch) {
				require.True(t, try(&settled, units, now, epoch), "run %d, request %d of %+v: an earlier clock got more", run, i, p)
				require.Equal(t, settled, *c)
			}
		}
	}
}

// TestRestateKeepsWhatWasSpent: under any new numbers a client has spent the tokens that it had, except those that a
// smaller capacity forgives.
func TestRestateKeepsWhatWasSpent(t *testing.T) {
	random := rand.New(rand.NewSource(7))
	for run := 0; run < 3000; run++ {
		from, to := randomPolicy(random), randomPolicy(random)
		if isWindow(from) != isWindow(to) {
			continue // such a limit gets new counters
		}
		epoch, now := random.Int63n(1<<60), random.Int63n(1<<40)
		c := &counter{at: now, policy: from}
		for i := 0; i < 10; i++ {
			try(c, from.token*(1+random.Int63n(from.size)), now, epoch)
			now += step(random, from)
		}
		settle(c, now, epoch)
		before := big.NewRat(spent(c, now), from.token)
		windowOver := isWindow(to) && now-c.at >= to.period

		restate(c, to, now, epoch)
		require.Same(t, to, c.policy)
		after := big.NewRat(spent(c, now), to.token)
		want := before
		if want.Cmp(rat(to.size)) > 0 {
			want = rat(to.size)
		}
		if windowOver {
			want = rat(0)
		}
		require.GreaterOrEqual(t, after.Cmp(want), 0, "run %d: %v tokens spent became %v, from %+v to %+v", run, want, after, from, to)
		rounding := new(big.Rat).Sub(after, want)
		require.Less(t, rounding.Cmp(big.NewRat(1, to.token)), 1, "run %d: %v tokens spent became %v, from %+v to %+v", run, want, after, from, to)
		require.LessOrEqual(t, spent(c, now), to.capacity)
		require.LessOrEqual(t, waitFull(c, now), to.full)
	}
}

func TestRestateRows(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		name     string
		from, to *policy
		cost     int64
		after    time.Duration
		left     int64
	}{
		{"a larger bucket", bucket(t, "1", s, 10, false), bucket(t, "1", s, 100, false), 10, 0, 90},
		{"a smaller bucket forgives", bucket(t, "1", s, 10, false), bucket(t, "1", s, 3, false), 8, 0, 0},
		{"a faster bucket", bucket(t, "1", s, 10, false), bucket(t, "100", s, 10, false), 10, 4 * s, 4},
		{"a slower bucket", bucket(t, "1", s, 10, false), bucket(t, "1", time.Hour, 10, false), 10, 4 * s, 4},
		{"smooth to interval", bucket(t, "1", s, 10, false), bucket(t, "5", time.Hour, 10, true), 10, 4 * s, 4},
		{"interval to smooth", bucket(t, "2", s, 10, true), bucket(t, "1", time.Hour, 10, false), 10, 4 * s, 8},
		{"a larger window", newWindow(10, int64(time.Minute), false), newWindow(100, int64(time.Minute), false), 10, 30 * s, 90},
		{"a longer window", newWindow(10, int64(time.Minute), false), newWindow(10, int64(time.Hour), false), 10, 30 * s, 0},
		{"a window that is over by now", newWindow(10, int64(time.Minute), false), newWindow(10, int64(20*s), false), 10, 30 * s, 10},
		{"the other alignment", newWindow(10, int64(time.Minute), false), newWindow(10, int64(time.Minute), true), 10, 30 * s, 0},
	} {
		c := &counter{policy: row.from}
		require.True(t, try(c, row.cost*row.from.token, 0, 0), row.name)
		restate(c, row.to, int64(row.after), 0)
		require.Equal(t, row.left, remaining(c, int64(row.after)), row.name)
	}
}

func TestRestateIsIdle(t *testing.T) {
	p := newWindow(5, 100, false)
	c := &counter{at: 7, spent: 3, policy: p}
	restate(c, p, 1000, 0)
	require.Equal(t, counter{at: 7, spent: 3, policy: p}, *c, "the same policy again changes nothing")
}

func TestScaleUp(t *testing.T) {
	exact := func(n, to, from int64) int64 {
		product := new(big.Int).Mul(big.NewInt(n), big.NewInt(to))
		product.Add(product, big.NewInt(from-1)).Quo(product, big.NewInt(from))
		if product.Cmp(big.NewInt(maxUnits)) > 0 {
			return maxUnits
		}
		return product.Int64()
	}
	interesting := []int64{1, 2, 3, 999, 1000, 1001, 1 << 31, 1<<32 + 1, maxTokens, maxPeriod, maxUnits - 1, maxUnits, math.MaxInt64}
	for _, n := range append(interesting, 0) {
		for _, to := range interesting {
			for _, from := range interesting {
				require.Equal(t, exact(n, to, from), scaleUp(n, to, from), fmt.Sprint(n, to, from))
			}
		}
	}
	require.NoError(t, quick.Check(func(a, b, c uint64) bool {
		n, to, from := int64(a>>1), int64(b>>1)|1, int64(c>>(1+a%60))|1
		return scaleUp(n, to, from) == exact(n, to, from)
	}, &quick.Config{MaxCount: 10_000, Rand: rand.New(rand.NewSource(8))}))
}
