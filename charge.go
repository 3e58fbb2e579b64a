package sluice

import "sort"

// One request against its limits.

// charge is what one limit asks of one request, and what came of it.
type charge struct {
	limit   *limit
	key     string
	counter *counter

	// Where the key stands after the decision.
	policy *policy
	left   int64    // whole tokens
	wait   int64    // nanoseconds until the same request would pass; 0 if this limit has room for it
	next   int64    // nanoseconds until the next token comes back, or the window ends
	reset  []string // the same as a value of X-RateLimit-Reset
}

// chargesOf lists what a request is to be charged, in the order of the limits.
func chargesOf(v *visit) []*charge {
	limits := v.rules.limits
	charges := make([]*charge, 0, len(limits))
	for _, l := range limits {
		charges = append(charges, &charge{limit: l, key: keyOf(v, l)})
	}
	return charges
}

// chargeAll charges every limit; or none if one has no room, and then it returns the one that has longest to wait. All counters are locked together
// while they are looked at, so that no two requests can be granted the same token, and none is refused for a token that
// another only tried to take. The locks are taken in the order of the tables, the same for every request of every
// handler, old or new.
func chargeAll(charges []*charge, now int64) *charge {
	for _, ch := range inLockOrder(charges) {
		ch.limit.table.mu.Lock()
	}
	var refusal *charge
	for _, ch := range charges {
		if look(ch, now) && (refusal == nil || ch.wait > refusal.wait) {
			refusal = ch
		}
	}
	for _, ch := range charges {
		if refusal == nil {
			take(ch.counter, ch.policy.token)
		}
		stand(ch, now)
		ch.limit.table.mu.Unlock()
	}
	return refusal
}

// look finds the charge's counter and says whether it lacks room.
func look(ch *charge, now int64) bool {
	t := ch.limit.table
	c := t.live[ch.key]
	if c == nil {
		c = admit(t, ch.key, now)
	}
	settle(c, now, t.epoch)
	ch.counter, ch.policy = c, c.policy
	ch.wait = waitFor(c, c.policy.token, now)
	return ch.wait > 0
}

// stand notes where the key stands.
func stand(ch *charge, now int64) {
	ch.left = remaining(ch.counter, now)
	ch.next = waitReset(ch.counter, now)
	ch.reset = resetHeader(ch.limit.table, now+ch.next)
}

// inLockOrder returns charges in the order of their tables. That is mostly their own, unless a reload moved limits about.
func inLockOrder(charges []*charge) []*charge {
	for i := 1; i < len(charges); i++ {
		if charges[i].limit.table.order < charges[i-1].limit.table.order {
			return sorted(charges)
		}
	}
	return charges
}

func sorted(charges []*charge) []*charge {
	ordered := append([]*charge(nil), charges...)
	sort.Slice(ordered, func(i, j int) bool {
		return ordered[i].limit.table.order < ordered[j].limit.table.order
	})
	return ordered
}
