package sluice

import (
	"strconv"
	"strings"
	"time"
)

// Counters shared by several gateways: how a request is charged in Redis or Valkey, and what happens when that cannot be had.
//
// In mode strict one call of a script charges all limits of a request, or none, by the server's clock. The counters in process follow:
// each is given the state that the script found, and the numbers that a response shows are then computed from it by the same code as without
// a shared store. So when the store fails, they are where the limiter goes on.
//
// In mode async requests are charged in process alone, and sync.go tells the store.

// What onFailure says to do with a request that the shared counters could not be asked about.
const (
	failLocal = iota // charge it in process
	failAllow        // let it pass
	failDeny         // refuse it, with 503
)

// What came of asking.
const (
	counted  = iota // it was charged, or refused
	lifted          // it passes uncounted
	declined        // it is refused because nobody knows
)

// sharing is how the limits of a middleware are shared. It never changes, but for what pool and ledger guard.
type sharing struct {
	config    *RedisConfig // what it was made of
	server    server
	prefix    string // of all its keys in the store
	salt      string // what keys are hashed with, the same in all gateways
	pool      *pool
	async     bool
	timeout   int64 // nanoseconds that a request waits at most
	onFailure int
	prefixes  map[*limit]string  // of each limit's keys in the store
	numbers   map[*policy]string // see policyNumbers: for one token
	ledger    *ledger
}

var (
	strictCall = newScript(scriptNow + strictScript)
	settleCall = newScript(scriptNow + settleScript)
)

// chargeShared is chargeAll for limits that are shared. outcome says whether there was a decision; if there was, refusal is the limit that has longest
// to wait, or nil.
func chargeShared(s *sharing, charges []*charge, now int64) (refusal *charge, outcome int) {
	if s.async {
		return chargeOwing(s, charges, now), counted
	}
	keys, call := strictArguments(s, charges)
	if keys == 0 {
		return chargeAll(charges, now), counted // nobody asked for more than to be let through
	}
	answer, ok := evaluate(s.pool, strictCall, keys, call, now+s.timeout)
	if ok {
		if refusal, ok = adopt(charges, answer); ok {
			return refusal, counted
		}
	}
	switch s.onFailure {
	case failAllow:
		return nil, lifted
	case failDeny:
		return nil, declined
	}
	// The clock is read again since the wait may have been long.
	return chargeOwing(s, charges, int64(time.Since(start))), counted
}

// chargeOwing is chargeAll, with a note of what the store is yet to be told.
func chargeOwing(s *sharing, charges []*charge, now int64) *charge {
	refusal := chargeAll(charges, now)
	if refusal == nil {
		owe(s, charges, now)
	}
	return refusal
}

// strictArguments encodes the keys and arguments of the script for a request's charges, but those that have no limit. It notes under which policy
// each is.
func strictArguments(s *sharing, charges []*charge) (keys int, call string) {
	arguments := ""
	for _, ch := range charges {
		l := ch.limit
		p := policyFor(l.numbers, ch.key)
		ch.policy, ch.units = p, ch.cost*p.token
		if ch.cost > p.size {
			ch.units = p.capacity + 1 // as look does
		}
		if p.kind == unlimited {
			continue
		}
		keys++
		key := s.prefixes[l] + ch.key
		call += "$" + strconv.Itoa(len(key)) + "\r\n" + key + "\r\n"
		if ch.cost == 1 {
			arguments += s.numbers[p]
		} else {
			arguments += policyNumbers(p, ch.units, dryOption(l))
		}
	}
	return keys, call + arguments
}

// dryOption is the script's option for a limit.
func dryOption(l *limit) int64 {
	if l.dryRun {
		return 1
	}
	return 0
}

// evaluate runs a script and returns the text that it answers. ok is false when there was no server to be had until deadline.
func evaluate(p *pool, s *script, keys int, call string, deadline int64) (answer string, ok bool) {
	for tries := 0; tries < 3; tries++ {
		c := acquire(p, deadline)
		if c == nil {
			return "", false
		}
		err := ask(c, s.byHash[keys]+call, 1, deadline)
		if err == nil && c.replies[0].kind == errorReply && strings.HasPrefix(c.replies[0].text, "NOSCRIPT") {
			err = ask(c, byText(s, keys)+call, 1, deadline)
		}
		switch {
		case err == nil && c.replies[0].kind != errorReply:
			answer = c.replies[0].text
			release(p, c)
			return answer, true
		case err == nil && isMisplaced(c.replies[0].text):
			discard(p, c, true)
		case err == nil:
			fail(p, c, c.replies[0].text)
			return "", false
		case isTimeout(err):
			fail(p, c, "no answer in time")
			return "", false
		default:
			discard(p, c, false) // the server closed it, perhaps long ago
		}
	}
	return "", false
}

// isMisplaced says that a server's error means that another one has, or takes, the key.
func isMisplaced(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "MOVED", "ASK", "READONLY", "MASTERDOWN", "LOADING", "CLUSTERDOWN", "TRYAGAIN":
		return true
	}
	return false
}

// adopt gives the counters in process the states that the script found, and then does with them what it did. ok is false when the answer is
// none.
func adopt(charges []*charge, answer string) (refusal *charge, ok bool) {
	words := strings.Split(answer, " ")
	passes := words[0] == "1"
	words = words[1:]
	now := int64(time.Since(start))
	for _, ch := range charges {
		a, b := int64(0), int64(0)
		if ch.policy.kind != unlimited {
			if len(words) < 2 {
				return nil, false
			}
			a, b = stateNumber(words[0]), stateNumber(words[1])
			words = words[2:]
		}
		adoptOne(ch, a, b, now, passes)
		if ch.wait > 0 && !ch.limit.dryRun && (refusal == nil || ch.wait > refusal.wait) {
			refusal = ch
		}
	}
	return refusal, len(words) == 0 && passes == (refusal == nil)
}

// adoptOne gives a charge's counter the state a, b. passes says that the script then charged it, if it had room.
func adoptOne(ch *charge, a, b, now int64, passes bool) {
	t := ch.limit.table
	t.mu.Lock()
	c := t.live[ch.key]
	if c == nil {
		c = admit(t, ch.key, now)
	}
	c.policy = ch.policy
	setState(c, a, b, now)
	ch.counter = c
	ch.wait = waitFor(c, ch.units, now)
	if passes && ch.wait == 0 {
		take(c, ch.units)
	}
	stand(ch, now)
	t.mu.Unlock()
}

// setState puts a counter into a state as a script writes it, which is of now.
func setState(c *counter, a, b, now int64) {
	if c.policy.kind == smoothBucket {
		c.at, c.spent = now+a*microsecond+b, 0
		return
	}
	c.at, c.spent = now-b*microsecond, a
}

// stateNumber reads a number of a state. What no script writes is nothing spent.
func stateNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxUnits/microsecond {
		return 0
	}
	return n
}
