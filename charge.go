package sluice

import "sort"

// One request against its limits.

// charge is what one limit asks of one request, and what came of it.
type charge struct {
	limit   *limit
	key     string
	cost    int64 // tokens
	units   int64 // cost in the counter's units
	counter *counter
	policy  *policy // the counter's

	// Where the key stands after the decision.
	left  int64    // whole tokens
	wait  int64    // nanoseconds until the same request would pass; 0 if there was room for it
	next  int64    // nanoseconds until the next token comes back, or the window ends
	reset []string // the same as a value of X-RateLimit-Reset
	line  string   // to log
}

// chargesOf lists what a request is to be charged, in the order of the limits that are for it. A limit that cannot
// count the request and whose answer to that is to refuse it is returned as missing.
func chargesOf(v *visit) (charges []*charge, missing *limit) {
	limits := v.rules.limits
	charges = make([]*charge, 0, len(limits))
	for _, l := range limits {
		if l.match != nil && !matches(v, l.match) {
			continue
		}
		ch := &charge{limit: l, cost: l.cost}
		switch {
		case l.byIP && v.ip != "":
			ch.key = v.ip
		case l.byIP:
			ch.key = clientKey(v)
		case l.header != "":
			ch.key = headerKey(v, l)
		default:
			ch.key = keyOf(v, l)
		}
		if ch.key == "" {
			if l.onMissing == missingRejects && !l.dryRun {
				return nil, l
			}
			continue
		}
		if l.costs != nil {
			ch.cost = costOf(v, l)
		}
		charges = append(charges, ch)
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

// chargeAll charges every limit; or none if one has no room, and then it returns the one that has longest to wait.
// All counters are locked together while they are looked at, so that no two requests can be granted the same token,
// and none is refused for a token that another only tried to take. The locks are taken in the order of the tables,
// the same for every request of every handler, old or new. A limit in dry run refuses nothing: it is charged if it
// has room.
//
// Where a key stands is worked out for the limits that the response tells of: one of them, unless limit.details says
// all.
func chargeAll(charges []*charge, now int64) (refusal *charge) {
	var room int64
	if len(charges) == 0 {
		return nil
	}
	first := charges[0].limit
	if first.moved {
		lockInOrder(charges)
	} else {
		for _, ch := range charges {
			ch.limit.table.mu.Lock()
		}
	}
	for _, ch := range charges {
		t := ch.limit.table
		c := t.live[ch.key]
		if c == nil {
			c = admit(t, ch.key, now)
		}
		p := c.policy
		if p.kind == smoothBucket { // settle
			if c.at < now {
				c.at = now
			}
			room = p.capacity + now
			room -= c.at
		} else {
			if c.spent == 0 || now-c.at >= p.period {
				settle(c, now, t.epoch)
			}
			room = p.capacity - c.spent
		}
		ch.units = ch.cost * p.token
		ch.counter = c
		ch.policy = p
		room -= ch.units
		ch.left = room / p.token // once it is charged
		if room < 0 || ch.cost > p.size {
			refusal = lacks(ch, refusal, now)
		}
	}
	if refusal == nil {
		for _, ch := range charges {
			if ch.wait > 0 { // in dry run
				continue
			}
			if ch.policy.kind == smoothBucket { // take
				ch.counter.at += ch.units
			} else {
				ch.counter.spent += ch.units
			}
		}
	}
	if refusal != nil || first.details {
		for _, ch := range charges {
			stand(ch, now)
		}
	} else {
		shown := charges[0]
		if first.several {
			shown = shownCharge(charges, nil)
		}
		if shown != nil {
			stand(shown, now)
		}
	}
	for _, ch := range charges {
		ch.limit.table.mu.Unlock()
	}
	return refusal
}

// lacks notes that the charge's limit has no room for it. It returns the charge that refuses the request so far.
func lacks(ch, refusal *charge, now int64) *charge {
	if ch.cost > ch.policy.size { // only while a reload makes the limit smaller: New refuses such a cost
		ch.units = ch.policy.capacity + 1
	}
	ch.wait = waitFor(ch.counter, ch.units, now)
	if ch.wait == 0 { // an override that lifts the limit, or a cost of 0
		return refusal
	}
	ch.line = countRefusal(ch, now)
	if !ch.limit.dryRun && (refusal == nil || ch.wait > refusal.wait) {
		return ch
	}
	return refusal
}

// stand notes where the key stands.
func stand(ch *charge, now int64) {
	if ch.policy.kind == smoothBucket {
		standSmooth(ch, now)
		return
	}
	ch.left = remaining(ch.counter, now)
	ch.next = waitReset(ch.counter, now)
	ch.reset = resetHeader(ch.limit.table, now+ch.next)
}

// standSmooth is stand for the most frequent kind, written out: remaining, waitSmooth, resetHeader.
func standSmooth(ch *charge, now int64) {
	var n int64
	p := ch.policy
	n = p.capacity + now
	n -= ch.counter.at
	n /= p.token
	if n < 0 {
		n = 0
	}
	ch.left = n
	n = ch.counter.at - now
	if n > 0 {
		n--
		n %= p.token
		n++
	}
	ch.next = n
	n += now
	n--
	n /= second
	ch.reset = ch.limit.table.resets[n]
	if ch.reset == nil {
		ch.reset = newReset(ch.limit.table, n)
	}
}

// shownCharge is the charge that a field with a single value shows: on a refusal that which has longest to wait, else
// that which has the fewest requests left. It is nil when no limit is enforced.
func shownCharge(charges []*charge, refusal *charge) *charge {
	if refusal != nil {
		return refusal
	}
	var shown *charge
	for _, ch := range charges {
		if (shown == nil || ch.left < shown.left) && !ch.limit.dryRun && ch.policy.kind != unlimited { // isShown
			shown = ch
		}
	}
	return shown
}

// lockInOrder locks the tables in their order, where a reload has moved limits about.
func lockInOrder(charges []*charge) {
	ordered := append([]*charge(nil), charges...)
	sort.Slice(ordered, func(i, j int) bool {
		return ordered[i].limit.table.order < ordered[j].limit.table.order
	})
	for _, ch := range ordered {
		ch.limit.table.mu.Lock()
	}
}
