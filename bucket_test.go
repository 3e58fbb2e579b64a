package sluice

import (
	"math"
	"math/big"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// try is one request on a counter: it says whether it fits, and takes units if so.
func try(c *counter, units, now, epoch int64) bool {
	settle(c, now, epoch)
	if waitFor(c, units, now) > 0 {
		return false
	}
	take(c, units)
	return true
}

// bucket builds a policy from an average as an operator writes it.
func bucket(t testing.TB, average string, period time.Duration, burst int64, interval bool) *policy {
	t.Helper()
	d, err := parseDecimal(average)
	require.NoError(t, err)
	p := newBucket(d, int64(period), burst, interval)
	require.NotNil(t, p)
	return p
}

// request is a row of a table: a request of cost tokens at an instant, and what should come of it.
type request struct {
	at      time.Duration
	cost    int64
	allowed bool
	left    int64
	reset   time.Duration // until the next token or refill, or the window's end
	retry   time.Duration // until the same request would pass
}

// runRows sends the rows' requests to a new counter of p.
func runRows(t *testing.T, p *policy, epoch int64, rows []request) {
	t.Helper()
	c := &counter{at: int64(rows[0].at), policy: p}
	for i, row := range rows {
		now, units := int64(row.at), row.cost*p.token
		settle(c, now, epoch)
		require.Equal(t, row.retry, time.Duration(waitFor(c, units, now)), "row %d: waitFor", i)
		require.Equal(t, row.allowed, try(c, units, now, epoch), "row %d: allowed", i)
		require.Equal(t, row.left, remaining(c, now), "row %d: remaining", i)
		require.Equal(t, row.reset, time.Duration(waitReset(c, now)), "row %d: waitReset", i)
	}
}

func TestSmoothBucketRows(t *testing.T) {
	const ms = time.Millisecond
	runRows(t, bucket(t, "10", time.Second, 3, false), 0, []request{
		{at: 0, cost: 1, allowed: true, left: 2, reset: 100 * ms},
		{at: 0, cost: 1, allowed: true, left: 1, reset: 100 * ms},
		{at: 0, cost: 1, allowed: true, left: 0, reset: 100 * ms},
		{at: 0, cost: 1, allowed: false, left: 0, reset: 100 * ms, retry: 100 * ms},
		{at: 99 * ms, cost: 1, allowed: false, left: 0, reset: 1 * ms, retry: 1 * ms},
		{at: 100*ms - 1, cost: 1, allowed: false, left: 0, reset: 1, retry: 1},
		{at: 100 * ms, cost: 1, allowed: true, left: 0, reset: 100 * ms},
		{at: 350 * ms, cost: 3, allowed: false, left: 2, reset: 50 * ms, retry: 50 * ms},
		{at: 350 * ms, cost: 2, allowed: true, left: 0, reset: 50 * ms},
		{at: time.Hour, cost: 0, allowed: true, left: 3, reset: 0},
		{at: time.Hour, cost: 3, allowed: true, left: 0, reset: 100 * ms},
	})
}

func TestIntervalBucketRows(t *testing.T) {
	const s = time.Second
	runRows(t, bucket(t, "2", 10*time.Second, 5, true), 0, []request{
		{at: 0, cost: 0, allowed: true, left: 5, reset: 0},
		{at: 3 * s, cost: 4, allowed: true, left: 1, reset: 10 * s}, // the period begins here
		{at: 4 * s, cost: 2, allowed: false, left: 1, reset: 9 * s, retry: 9 * s},
		{at: 4 * s, cost: 5, allowed: false, left: 1, reset: 9 * s, retry: 19 * s},
		{at: 13*s - 1, cost: 2, allowed: false, left: 1, reset: 1, retry: 1},
		{at: 13 * s, cost: 2, allowed: true, left: 1, reset: 10 * s},
		{at: 32 * s, cost: 0, allowed: true, left: 3, reset: 1 * s}, // no part of a period is lost
		{at: 33 * s, cost: 0, allowed: true, left: 5, reset: 0},
		{at: 34 * s, cost: 5, allowed: true, left: 0, reset: 10 * s}, // nor is one running in a full bucket
		{at: 44 * s, cost: 2, allowed: true, left: 0, reset: 10 * s},
	})
}

func TestIntervalBucketOfFractions(t *testing.T) {
	const s = time.Second
	runRows(t, bucket(t, "0.5", time.Second, 1, true), 0, []request{
		{at: 0, cost: 1, allowed: true, left: 0, reset: 1 * s},
		{at: 1 * s, cost: 1, allowed: false, left: 0, reset: 1 * s, retry: 1 * s},
		{at: 2 * s, cost: 1, allowed: true, left: 0, reset: 1 * s},
	})
}

// TestBucketLimits are the sizes at which a bucket stops being countable.
func TestBucketLimits(t *testing.T) {
	const largest = maxTokens
	for _, row := range []struct {
		name     string
		average  decimal
		period   int64
		burst    int64
		interval bool
		ok       bool
	}{
		{"a token a nanosecond", decimal{1000, 1}, 1000, largest, false, true},
		{"more than a token a nanosecond", decimal{10001, 10}, 1000, 1, false, false},
		{"73 years to fill", decimal{1, 1}, 1 << 22, 1 << 39, false, true},
		{"far more than 73 years to fill", decimal{1, 1}, maxPeriod, 1000, false, false},
		{"one token in millions of years", decimal{1, 1_000_000}, maxPeriod, 1, false, false},
		{"largest interval bucket", decimal{largest, 1}, maxPeriod, largest, true, true},
		{"finest interval bucket", decimal{largest*1_000_000 - 1, 1_000_000}, 1000, largest, true, true},
		{"interval bucket of too many refills", decimal{1, 1}, maxPeriod, largest, true, false},
	} {
		p := newBucket(row.average, row.period, row.burst, row.interval)
		require.Equal(t, row.ok, p != nil, row.name)
		if p != nil {
			require.Positive(t, p.token, row.name)
			require.Positive(t, p.capacity, row.name)
			require.Positive(t, p.full, row.name)
		}
	}
}

// TestLargestBucketsCount drives the largest buckets that options allow through everything that is calculated, late
// in a process's life.
func TestLargestBucketsCount(t *testing.T) {
	const late = 20 * maxPeriod / 10 // the process runs for 20 years
	policies := []*policy{
		newBucket(decimal{1000, 1}, 1000, maxTokens, false),
		newBucket(decimal{1, 1}, 1<<22, 1<<39, false),
		newBucket(decimal{maxTokens, 1}, maxPeriod, maxTokens, true),
		newBucket(decimal{maxTokens*1_000_000 - 1, 1_000_000}, 1000, maxTokens, true),
		newBucket(decimal{1, 1_000_000}, 1000, 1, true),
		newWindow(maxTokens, maxPeriod, false),
	}
	for i, p := range policies {
		c := &counter{at: late, policy: p}
		require.True(t, try(c, p.capacity, late, 0), i)
		require.Zero(t, remaining(c, late), i)
		for _, units := range []int64{1, p.token, p.capacity} {
			require.False(t, try(c, units, late, 0), i)
			wait := waitFor(c, units, late)
			require.LessOrEqual(t, wait, p.full, i)
			fresh := *c
			require.False(t, try(&fresh, units, late+wait-1, 0), i)
			fresh = *c
			require.True(t, try(&fresh, units, late+wait, 0), i)
		}
		require.Equal(t, p.full, waitFull(c, late), i)
		for _, now := range []int64{late + p.full, late + p.full + maxPeriod, 1 << 62} {
			idle := *c
			settle(&idle, now, 0)
			require.Equal(t, p.size, remaining(&idle, now), i)
		}
	}
}

// randomBucket is a bucket that an operator might write, or might not.
func randomBucket(random *rand.Rand, interval bool) (p *policy, average decimal, period int64) {
	for p == nil {
		average = decimal{digits: 1 + random.Int63n(int64(math.Pow10(1+random.Intn(4)))), scale: int64(math.Pow10(random.Intn(4)))}
		period = 1000 + random.Int63n(int64(math.Pow10(4+random.Intn(9))))
		p = newBucket(average, period, 1+random.Int63n(20), interval)
	}
	return p, average, period
}

// step is the time to the next request: often none, often about a token, now and then long.
func step(random *rand.Rand, p *policy) int64 {
	unit := p.full/p.size + 1
	switch random.Intn(4) {
	case 0:
		return 0
	case 1:
		return random.Int63n(p.full + 2)
	}
	return random.Int63n(unit + 1)
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// TestSmoothBucketNeverAllowsMore is the promise of a bucket: in any interval of length t at most burst + t * average
// / period.
func TestSmoothBucketNeverAllowsMore(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for run := 0; run < 80; run++ {
		p, average, period := randomBucket(random, false)
		rate := big.NewRat(average.digits, average.scale)
		rate.Quo(rate, rat(period))
		now := random.Int63n(1 << 40)
		c := &counter{at: now, policy: p}
		var at, tokens []int64
		for i := 0; i < 80; i++ {
			now += step(random, p)
			cost := 1 + random.Int63n(p.size)
			if random.Intn(3) > 0 {
				cost = 1
			}
			if try(c, cost*p.token, now, 0) {
				at, tokens = append(at, now), append(tokens, cost)
			}
		}
		for from := range at {
			sum := int64(0)
			for to := from; to < len(at); to++ {
				sum += tokens[to]
				bound := new(big.Rat).Mul(rate, rat(at[to]-at[from]))
				if rat(sum).Cmp(bound.Add(bound, rat(p.size))) > 0 {
					require.Fail(t, "too many", "run %d: %d tokens in %d ns of %+v, %d a period %d", run, sum, at[to]-at[from], p, average, period)
				}
			}
		}
	}
}

// naiveBucket is a bucket in exact fractions: the tokens in it at some instant.
type naiveBucket struct {
	tokens, size, rate *big.Rat // rate is tokens a nanosecond
	at                 int64
}

func (b *naiveBucket) fill(now int64) {
	gained := new(big.Rat).Mul(b.rate, rat(now-b.at))
	b.tokens.Add(b.tokens, gained)
	if b.tokens.Cmp(b.size) > 0 {
		b.tokens.Set(b.size)
	}
	b.at = now
}

// TestSmoothBucketIsExact: a bucket decides just as one in exact fractions does whose token takes a whole number of
// nanoseconds. What it shows of itself is that bucket's, too.
func TestSmoothBucketIsExact(t *testing.T) {
	random := rand.New(rand.NewSource(2))
	for run := 0; run < 100; run++ {
		p, average, period := randomBucket(random, false)
		exact := new(big.Rat).Mul(rat(period), big.NewRat(average.scale, average.digits))
		require.GreaterOrEqual(t, rat(p.token).Cmp(exact), 0, "a token is never shorter than written")
		require.Less(t, rat(p.token-1).Cmp(exact), 0, "nor longer by a nanosecond")

		now := random.Int63n(1 << 40)
		c := &counter{at: now, policy: p}
		naive := &naiveBucket{tokens: rat(p.size), size: rat(p.size), rate: big.NewRat(1, p.token), at: now}
		for i := 0; i < 100; i++ {
			now += step(random, p)
			cost := 1 + random.Int63n(p.size)
			naive.fill(now)
			fits := naive.tokens.Cmp(rat(cost)) >= 0
			settle(c, now, 0)
			wait := waitFor(c, cost*p.token, now)
			require.Equal(t, fits, try(c, cost*p.token, now, 0), "run %d, request %d of %+v", run, i, p)
			if fits {
				naive.tokens.Sub(naive.tokens, rat(cost))
			} else {
				lacking := new(big.Rat).Sub(rat(cost), naive.tokens)
				require.Equal(t, rat(wait), lacking.Mul(lacking, rat(p.token)))
			}
			whole := new(big.Int).Quo(naive.tokens.Num(), naive.tokens.Denom()).Int64()
			require.Equal(t, whole, remaining(c, now))
			if whole < p.size {
				next := new(big.Rat).Sub(rat(whole+1), naive.tokens)
				require.Equal(t, next.Mul(next, rat(p.token)), rat(waitReset(c, now)))
			}
		}
	}
}

// naiveInterval is an interval bucket that walks through its periods one by one, in exact fractions.
type naiveInterval struct {
	spent, average *big.Rat
	period, began  int64
}

func (b *naiveInterval) fill(now int64) {
	for b.spent.Sign() > 0 && now-b.began >= b.period {
		b.began += b.period
		if b.spent.Sub(b.spent, b.average).Sign() < 0 {
			b.spent.SetInt64(0)
		}
	}
	if b.spent.Sign() == 0 {
		b.began = now
	}
}

func TestIntervalBucketIsExact(t *testing.T) {
	random := rand.New(rand.NewSource(3))
	for run := 0; run < 100; run++ {
		p, average, period := randomBucket(random, true)
		now := random.Int63n(1 << 40)
		c := &counter{at: now, policy: p}
		naive := &naiveInterval{spent: rat(0), average: big.NewRat(average.digits, average.scale), period: period, began: now}
		for i := 0; i < 100; i++ {
			now += random.Int63n(2 * period)
			if random.Intn(10) == 0 {
				now += random.Int63n(10 * period)
			}
			cost := 1 + random.Int63n(p.size)
			naive.fill(now)
			after := new(big.Rat).Add(naive.spent, rat(cost))
			fits := after.Cmp(rat(p.size)) <= 0
			require.Equal(t, fits, try(c, cost*p.token, now, 0), "run %d, request %d of %+v", run, i, p)
			if fits {
				naive.spent = after
			}
			left := new(big.Rat).Sub(rat(p.size), naive.spent)
			require.Equal(t, new(big.Int).Quo(left.Num(), left.Denom()).Int64(), remaining(c, now))
		}
	}
}
