package sluice

import "sort"

// One request against its limits.

// charge is what one limit asks of one request, and what came of it.
type charge struct {
	limit   *limit
	key     string
	cost    int64 // tokens
	counter *counter
	units   int64 // cost in the counter's units

	// Where the key stands after the decision.
	policy *policy
	left   int64    // whole tokens
	wait   int64    // nanoseconds until the same request would pass; 0 if this limit has room for it
	next   int64    // nanoseconds until the next token comes back, or the window ends
	reset  []string // the same as a value of X-RateLimit-Reset
	line   string   // to log
}

// chargesOf lists what a request is to be charged, in the order of the limits that are for it. A limit that cannot count the request and whose answer to
// that is to refuse it is returned as missing.
func chargesOf(v *visit) (charges []*charge, missing *limit) {
	limits := v.rules.limits
	charges = make([]*charge, 0, len(limits))
	for _, l := range limits {
		if l.match != nil && !matches(v, l.match) {
			continue
		}
		key, ok := keyOf(v, l)
		if !ok {
			if l.onMissing == missingRejects && !l.dryRun {
				return nil, l
			}
			continue
		}
		cost := l.cost
		if l.costs != nil {
			cost = costOf(v, l)
		}
		charges = append(charges, &charge{limit: l, key: key, cost: cost})
	}
	return charges, nil
}

// costOf is the cost of a request under a limit where it depends on the request: that of the first match.
func costOf(v *visit, l *limit) int64 {
	for _, c := range l.costs {
		if matches(v, c.match) {
			return c.cost
		}
	}
	return l.cost
}

// chargeAll charges every limit; or none if one has no room, and then it returns the one that has longest to wait. All counters are locked together
// while they are looked at, so that no two requests can be granted the same token, and none is refused for a token that
// another only tried to take. The locks are taken in the order of the tables, the same for every request of every
// handler, old or new. A limit in dry run refuses nothing: it is charged if it has room.
func chargeAll(charges []*charge, now int64) *charge {
	for _, ch := range inLockOrder(charges) {
		ch.limit.table.mu.Lock()
	}
	var refusal *charge
	for _, ch := range charges {
		look(ch, now)
		if ch.wait > 0 && !ch.limit.dryRun && (refusal == nil || ch.wait > refusal.wait) {
			refusal = ch
		}
	}
	for _, ch := range charges {
		if refusal == nil && ch.wait == 0 {
			take(ch.counter, ch.units)
		}
		stand(ch, now)
		ch.limit.table.mu.Unlock()
	}
	return refusal
}

// look finds the charge's counter and how long the charge would have to wait for room.
func look(ch *charge, now int64) {
	t := ch.limit.table
	c := t.live[ch.key]
	if c == nil {
		c = admit(t, ch.key, now)
	}
	settle(c, now, t.epoch)
	p := c.policy
	ch.counter = c
	ch.policy = p
	ch.units = ch.cost * p.token
	if ch.cost > p.size { // only while a reload makes the limit smaller: New refuses such a cost
		ch.units = p.capacity + 1
	}
	ch.wait = waitFor(c, ch.units, now)
}

// stand notes where the key stands.
func stand(ch *charge, now int64) {
	ch.left = remaining(ch.counter, now)
	ch.next = waitReset(ch.counter, now)
	ch.reset = resetHeader(ch.limit.table, now+ch.next)
	if ch.wait > 0 {
		ch.line = countRefusal(ch, now)
	}
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
