package sluice

// Token bucket (a leaky bucket used as a meter): a bucket holds at most burst tokens and starts full. Tokens come
// back at a fixed rate. A request takes its cost, or is refused and takes nothing.
//
// Smooth refill is the generic cell rate algorithm (ITU-T I.371, in its virtual scheduling form). It remembers one
// point in time, when the bucket is full again. A unit is a nanosecond, and a token the nanoseconds in which one
// comes back (the emission interval). What is spent is then the time until the bucket is full, and time itself gives
// it back.
//
// Invariant, smooth refill: in any interval of length t no key is allowed more than burst + t * average / period.
// With interval refill `average` tokens arrive at once: the bound is burst + average for every refill in the
// interval.

// newBucket builds the policy of a token bucket that gains average tokens every period (nanoseconds) and holds burst
// tokens; all are positive and within the bounds of policy.go. interval says that tokens come back all at once at the
// end of each period, not evenly. It returns nil when tokens would come faster than one a nanosecond, or an empty
// bucket would fill in more than 73 years: neither can be counted in whole nanoseconds.
func newBucket(average decimal, period, burst int64, interval bool) *policy {
	p := &policy{size: burst, period: period}
	if interval {
		// "2.5" is 25 tenths: a token is 10 units and a refill 25.
		p.kind = intervalBucket
		p.token = average.scale
		p.refill = average.digits
		p.capacity = burst * p.token // at most maxTokens * 10^maxDecimals
		refills := (p.capacity-1)/p.refill + 1
		if refills > maxUnits/period {
			return nil
		}
		p.full = refills * period
		return p
	}
	if average.ceil() > period {
		return nil
	}
	// Rounded up, so that the limit is at most a nanosecond a token stricter than written, never looser.
	p.token = scaleUp(period, average.scale, average.digits)
	if p.token >= maxUnits || burst > maxUnits/p.token {
		return nil
	}
	p.capacity = burst * p.token
	p.full = p.capacity
	return p
}

// settleSmooth: a bucket that was full in the past is full now.
func settleSmooth(c *counter, now int64) {
	if c.at < now {
		c.at = now
	}
}

// settleInterval gives back a refill for each whole period since c.at, and moves c.at by just those periods, so that
// no part of a period is lost. A full bucket has no period running: the first request that takes from it begins one.
func settleInterval(c *counter, now int64) {
	p := c.policy
	if periods := (now - c.at) / p.period; periods > 0 {
		c.at += periods * p.period
		c.spent -= giveBack(c, periods)
	}
	if c.spent == 0 && c.at < now {
		c.at = now
	}
}

// giveBack is the units that come back in so many periods, at most those spent. The comparison comes first since the
// product might be too large.
func giveBack(c *counter, periods int64) int64 {
	p := c.policy
	if periods >= p.full/p.period || periods*p.refill > c.spent {
		return c.spent
	}
	return periods * p.refill
}

// waitSmooth is the time until the settled c, in which something is spent, gains its next whole token.
func waitSmooth(c *counter, now int64) int64 {
	return (c.at-now-1)%c.policy.token + 1
}

// waitInterval is the time until the refill that gives back the last of units, 1 or more, in the settled c.
func waitInterval(c *counter, units, now int64) int64 {
	p := c.policy
	refills := (units-1)/p.refill + 1
	return c.at + refills*p.period - now
}
