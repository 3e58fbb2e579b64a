package sluice

import (
	"math/bits"
	"time"
)

// What buckets and windows have in common, and the choice between them. This file, bucket.go and window.go are
// arithmetic: functions of a counter, its policy, the present and a cost, which know neither HTTP nor locks nor
// clocks.
//
// A point in time is nanoseconds since the plugin was loaded, on the monotonic clock: a wall clock that jumps changes
// nothing. What a request spends is counted in units; a policy says how many units one token is. Everything is whole
// numbers, and where one has to be rounded it is rounded against the client, by less than a nanosecond or a unit.

const (
	// maxTokens bounds what an operator may write for average, burst, requests or cost.
	maxTokens = 1_000_000_000_000
	// maxPeriod bounds a period or window.
	maxPeriod = int64(10 * 365 * 24 * time.Hour)
	// maxUnits bounds a policy's capacity. Three of them still fit an int64.
	maxUnits = 1 << 61
)

// The kinds of policy.
const (
	smoothBucket   = iota // tokens come back one by one
	intervalBucket        // tokens come back all at once, every period
	firstWindow           // a window opens at the key's first request
	clockWindow           // windows are UTC multiples of their length
	unlimited             // an override that lifts the limit
)

// policy is the numbers of one limit, or of one override of it, ready for arithmetic. It never changes once built.
type policy struct {
	kind     int
	size     int64 // tokens that a full bucket holds, or requests in a window
	token    int64 // units that one token is
	capacity int64 // size * token: what can be spent
	refill   int64 // interval bucket: units that come back every period
	period   int64 // nanoseconds: of a window, or between the refills of an interval bucket
	full     int64 // nanoseconds from empty to full; the length of a window

	// How the responses show it, see headers.go.
	limitHeader           []string
	ietfItem, draft06Item string
}

// counter is what is remembered of one key. A counter with nothing spent says as much as none at all.
type counter struct {
	// at, in a smooth bucket, is when the bucket is full again: the theoretical arrival time of the generic cell rate
	// algorithm. In an interval bucket it is when the current period began, and in a window when that opened.
	at int64
	// spent is the units taken and not yet given back, 0 to capacity. A smooth bucket does not use it: there it is at
	// - now.
	spent  int64
	policy *policy
}

// settle brings c up to now: what is refilled is given back, a window that is over is closed. It changes how c is
// written and not what it means, so it may be called for a request that is then refused. A now before an earlier one
// is harmless (two requests may read the clock in one order and get the lock in the other). epoch is the Unix time of
// the clock's zero; only clock-aligned windows look at it.
func settle(c *counter, now, epoch int64) {
	switch c.policy.kind {
	case smoothBucket:
		settleSmooth(c, now)
	case intervalBucket:
		settleInterval(c, now)
	case firstWindow:
		settleFirstWindow(c, now)
	case clockWindow:
		settleClockWindow(c, now, epoch)
	case unlimited:
		c.at = now
		c.spent = 0
	}
}

// spent is the units that are spent in the settled c.
func spent(c *counter, now int64) int64 {
	if c.policy.kind == smoothBucket {
		return c.at - now
	}
	return c.spent
}

// take spends units, 0 or more, from the settled c. The caller has seen that they fit.
func take(c *counter, units int64) {
	if c.policy.kind == smoothBucket {
		c.at += units
		return
	}
	c.spent += units
}

// remaining is the whole tokens that are left in the settled c. A now before an earlier one could make them less than
// none.
func remaining(c *counter, now int64) int64 {
	left := (c.policy.capacity - spent(c, now)) / c.policy.token
	if left < 0 {
		return 0
	}
	return left
}

// waitFor is the nanoseconds until units, at most the capacity, fit into the settled c if nobody else takes any; 0 if
// they do now.
func waitFor(c *counter, units, now int64) int64 {
	p := c.policy
	over := spent(c, now) + units - p.capacity
	if over <= 0 || p.kind == unlimited {
		return 0
	}
	switch p.kind {
	case smoothBucket:
		return over
	case intervalBucket:
		return waitInterval(c, over, now)
	}
	return waitWindow(c, now)
}

// waitReset is the nanoseconds until the settled c next gets better for its client: when the bucket gains its next
// whole token, or the window ends. It is 0 when nothing is spent.
func waitReset(c *counter, now int64) int64 {
	p := c.policy
	switch {
	case spent(c, now) == 0:
		return 0
	case p.kind == smoothBucket:
		return waitSmooth(c, now)
	case p.kind == intervalBucket:
		return waitInterval(c, 1, now)
	}
	return waitWindow(c, now)
}

// waitFull is the nanoseconds until the settled c says as much as none, so that forgetting it changes nothing.
func waitFull(c *counter, now int64) int64 {
	switch {
	case spent(c, now) == 0:
		return 0
	case c.policy.kind == smoothBucket:
		return c.at - now
	case c.policy.kind == intervalBucket:
		return waitInterval(c, c.spent, now)
	}
	return waitWindow(c, now)
}

// forgives is how much would be forgiven if the settled c were forgotten: of a bucket the nanoseconds until it is
// full; of a window those until it ends, by the part of it that is spent, so that of two windows with the same count
// the older one forgives less.
func forgives(c *counter, now int64) int64 {
	p := c.policy
	wait := waitFull(c, now)
	if wait <= 0 || p.kind != firstWindow && p.kind != clockWindow {
		return wait
	}
	return scaleUp(wait, c.spent, p.capacity)
}

// restate puts c under another policy of the same algorithm, and keeps what its client had spent: a counter outlives
// a change of its limit's numbers. Tokens spent stay tokens spent, except those that a smaller capacity forgives. A
// window keeps when it opened, too.
func restate(c *counter, p *policy, now, epoch int64) {
	if c.policy == p {
		return
	}
	settle(c, now, epoch)
	units := scaleUp(spent(c, now), p.token, c.policy.token)
	if units > p.capacity {
		units = p.capacity
	}
	if c.policy.kind == smoothBucket || p.kind == smoothBucket || p.kind == unlimited {
		c.at = now
	} else if p.kind == intervalBucket && now-c.at >= p.period {
		c.at = now // time that passed under longer periods must not count as many short ones
	}
	c.policy = p
	c.spent = 0
	take(c, units)
	settle(c, now, epoch)
}

func isWindow(p *policy) bool { return p.kind == firstWindow || p.kind == clockWindow }

// scaleUp is n * to / from, rounded up, for 0 <= n and 0 < to, from; maxUnits if it is more. The product is taken in
// 128 bits.
func scaleUp(n, to, from int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(to))
	lo, carry := bits.Add64(lo, uint64(from-1), 0)
	hi += carry
	if hi >= uint64(from) {
		return maxUnits
	}
	quotient, _ := bits.Div64(hi, lo, uint64(from))
	if quotient > maxUnits {
		return maxUnits
	}
	return int64(quotient)
}
