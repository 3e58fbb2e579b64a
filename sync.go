package sluice

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// What gateways let pass on their own, and how they tell each other: in mode async always, in mode strict while the
// store is away.
//
// A gateway charges its own counters and notes in a ledger what it took from which. Half an interval later it adds
// that to the store's counters, which have everybody's, and takes over what it finds there. So when a gateway decides
// about a key that it serves all along, it knows what the others had let pass until one interval and a round trip
// ago; about a key that is new to it, half an interval after its first request. Hence the bound: together they let
// pass at most what the limit says, and what each lets pass in one interval. A bucket does not forget what was too
// much: the store's counter owes it, up to its capacity once more, and so the rate over longer times is the limit's.
//
// Between exchanges nothing runs: the first note after one sets a timer, the exchange when it goes off is its own
// goroutine, and no handler has one. Notes survive an outage, and each other's limit, for as long as they mean
// anything.

// debt is what a gateway has taken from one counter without telling the store. The ledger's lock guards it.
type debt struct {
	limit  *limit
	key    string
	policy *policy
	units  int64
	since  int64 // when the first of it was taken
	told   bool  // it is on its way to the store: what is taken now is another debt
}

// ledger is the debts of a middleware.
type ledger struct {
	pause int64 // nanoseconds from a debt to its exchange
	life  int64 // nanoseconds after which no debt means anything any more

	mu     sync.Mutex
	owed   map[string]*debt // by the counter's key in the store
	older  map[string]*debt // those from before the last turn, while the store is away
	turned int64
	due    bool             // an exchange is
	peers  map[string]*debt // by a connection's unparsed address, see owePeer
}

// maxOwed bounds the debts in each of a ledger's maps. What is taken beyond that in an outage, the store is not told.
const maxOwed = 100_000

// owe notes that charges were taken.
func owe(s *sharing, charges []*charge, now int64) {
	b := s.ledger
	b.mu.Lock()
	for _, ch := range charges {
		if ch.wait > 0 || ch.policy.kind == unlimited {
			continue // a limit in dry run that had no room
		}
		d := b.owed[s.prefixes[ch.limit]+ch.key]
		if d == nil || d.policy != ch.policy {
			d = newDebt(s, ch, now)
		}
		d.units += ch.units
	}
	b.mu.Unlock()
}

// owePeer is owe for asyncByPeer: a token was taken from the bucket of the request's peer.
func owePeer(s *sharing, m *middleware, req *http.Request, p *policy, now int64) {
	b := s.ledger
	b.mu.Lock()
	d := b.peers[req.RemoteAddr]
	if d == nil || d.told || d.policy != p {
		d = meetDebt(s, m, req, p, now)
	}
	d.units += p.token
	b.mu.Unlock()
}

// meetDebt is the rare half of owePeer, for a connection of which nothing is owed.
func meetDebt(s *sharing, m *middleware, req *http.Request, p *policy, now int64) *debt {
	b := s.ledger
	l := m.rules.limits[0]
	key := clientKey(&visit{rules: m.rules, req: req, now: now})
	d := b.owed[s.prefixes[l]+key]
	if d == nil || d.policy != p {
		d = newDebt(s, &charge{limit: l, key: key, policy: p}, now)
	}
	if b.peers == nil || len(b.peers) >= maxPeers {
		b.peers = map[string]*debt{}
	}
	b.peers[req.RemoteAddr] = d
	return d
}

// newDebt is the rare half of owe, for a counter from which nothing has been taken since the last exchange, or only
// under another policy.
func newDebt(s *sharing, ch *charge, now int64) *debt {
	b := s.ledger
	key := s.prefixes[ch.limit] + strings.Clone(ch.key)
	d := &debt{limit: ch.limit, key: key[len(s.prefixes[ch.limit]):], policy: ch.policy, since: now}
	if old := b.owed[key]; old != nil {
		old.told = true
		d.since = old.since
		d.units = scaleUp(old.units, d.policy.token, old.policy.token)
	}
	if len(b.owed) < maxOwed {
		b.owed[key] = d
	}
	exchangeLater(s)
	setOwing(s.pool, true)
	return d
}

func setOwing(p *pool, owing bool) {
	p.mu.Lock()
	p.owing = owing
	p.mu.Unlock()
}

// payFirst tells the store what is owed to the counters that it is about to be asked about, if it can be had. So when
// it is back after an outage, no counter is asked before it has been told what this gateway let pass in between.
func payFirst(s *sharing, charges []*charge) {
	b := s.ledger
	var debts []*debt
	b.mu.Lock()
	if len(b.owed)+len(b.older) > 0 {
		for _, ch := range charges {
			key := s.prefixes[ch.limit] + ch.key
			debts = takeOut(b.older, key, debts)
			debts = takeOut(b.owed, key, debts)
		}
	}
	b.mu.Unlock()
	if len(debts) == 0 {
		return
	}
	if exchangeSome(s, debts, s.server.timeout) {
		paid(s)
		return
	}
	returnDebts(s, debts)
}

// takeOut moves a debt out of a ledger's map.
func takeOut(from map[string]*debt, key string, debts []*debt) []*debt {
	if d := from[key]; d != nil {
		d.told = true
		debts = append(debts, d)
		delete(from, key)
	}
	return debts
}

// paid notes when nothing is owed any more.
func paid(s *sharing) {
	b := s.ledger
	b.mu.Lock()
	if len(b.owed)+len(b.older) == 0 {
		setOwing(s.pool, false)
	}
	b.mu.Unlock()
}

// exchangeLater sees to it that there will be an exchange. The ledger is locked.
func exchangeLater(s *sharing) {
	if s.ledger.due {
		return
	}
	s.ledger.due = true
	time.AfterFunc(time.Duration(s.ledger.pause), func() { exchange(s) })
}

// exchange tells the store all that is owed now, and learns what others took from the same counters.
func exchange(s *sharing) {
	b := s.ledger
	b.mu.Lock()
	b.due = false
	left := len(b.owed) + len(b.older)
	b.mu.Unlock()
	for left > 0 {
		debts := collect(b)
		if len(debts) > 0 && !exchangeSome(s, debts, s.ledger.pause+s.server.timeout) {
			returnDebts(s, debts)
			return
		}
		left -= maxScriptKeys
	}
	paid(s)
}

// collect takes some debts, as many as go into one call, out of a ledger.
func collect(b *ledger) []*debt {
	debts := make([]*debt, 0, maxScriptKeys)
	b.mu.Lock()
	debts = collectFrom(b.older, debts)
	debts = collectFrom(b.owed, debts)
	b.mu.Unlock()
	return debts
}

func collectFrom(from map[string]*debt, debts []*debt) []*debt {
	for key, d := range from {
		if len(debts) == maxScriptKeys {
			break
		}
		d.told = true
		debts = append(debts, d)
		delete(from, key)
	}
	return debts
}

// returnDebts puts debts that could not be told back into the ledger, and forgets those that mean nothing any more:
// what nobody has looked at for a whole life.
func returnDebts(s *sharing, debts []*debt) {
	b := s.ledger
	now := int64(time.Since(start))
	b.mu.Lock()
	if now-b.turned > b.life {
		b.older = b.owed
		b.owed = map[string]*debt{}
		b.turned = now
	}
	for _, d := range debts {
		key := s.prefixes[d.limit] + d.key
		later := b.owed[key]
		switch {
		case now-d.since > b.life:
		case later == nil:
			d.told = false
			b.owed[key] = d
		case later.policy == d.policy:
			later.units += d.units
			if d.since < later.since {
				later.since = d.since
			}
		}
	}
	exchangeLater(s)
	b.mu.Unlock()
}

// exchangeSome settles debts in one call, which may take timeout nanoseconds.
func exchangeSome(s *sharing, debts []*debt, timeout int64) bool {
	asked := int64(time.Since(start))
	keys, numbers := settleScript.heads[len(debts)], ""
	for _, d := range debts {
		units, age := unsettled(s, d, asked)
		keys += arguments(s.prefixes[d.limit] + d.key)
		numbers += policyNumbers(d.policy, units, age)
	}
	answer := evaluate(s.pool, settleScript, keys+numbers, asked+timeout)
	words := strings.Fields(strings.TrimPrefix(answer, "+"))
	if len(words) != 2*len(debts) {
		return false
	}
	for i, d := range debts {
		learn(s, d, stateNumber(words[2*i]), stateNumber(words[2*i+1]), asked)
	}
	return true
}

// unsettled is how many units of a debt the store is to be told, and as of how many microseconds ago.
//
// What was taken in a window that is over, or has been refilled since, counts no more: the counter in process says
// how much still does. But a smooth bucket refills all the time, and while several gateways take from it at once,
// none has all that was taken in its counter and each would think that the refill was for itself. So in mode async
// the store is told all, and when it was taken. It cannot be told so late, or in mode strict, where it has been asked
// about later times already.
func unsettled(s *sharing, d *debt, now int64) (units, age int64) {
	age = (now - d.since) / microsecond
	if d.policy.kind == smoothBucket && s.async && age <= maxAge {
		return d.units, age
	}
	t := d.limit.table
	units = d.units
	t.mu.Lock()
	if c := t.live[d.key]; c != nil && c.policy == d.policy {
		settle(c, now, t.epoch)
		if left := spent(c, now); left < units {
			units = left
		}
	}
	t.mu.Unlock()
	return units, 0
}

// maxAge bounds the microseconds that settleText is told.
const maxAge = 1_000_000

// learn gives the counter that d was about the state a, b that the store answered, with what was taken from it since.
// asked is when the store was asked: it looked a little later, and to take that for the moment errs by less than a
// round trip, in the client's favor. What a counter knows already it does not forget: if the store lost its counters,
// each gateway still has its own.
func learn(s *sharing, d *debt, a, b, asked int64) {
	found := &counter{policy: d.policy}
	setState(found, a, b, asked)
	s.ledger.mu.Lock()
	if later := s.ledger.owed[s.prefixes[d.limit]+d.key]; later != nil && later.policy == d.policy {
		take(found, later.units)
	}
	s.ledger.mu.Unlock()

	t := d.limit.table
	t.mu.Lock()
	if c := t.live[d.key]; c != nil && c.policy == d.policy {
		settle(c, asked, t.epoch)
		if c.policy.kind == smoothBucket && found.at > c.at || found.spent > c.spent {
			c.at, c.spent = found.at, found.spent
		}
	}
	t.mu.Unlock()
}
