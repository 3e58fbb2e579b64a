package sluice

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Counters shared by several gateways: how a request is charged in Redis, and what happens when that cannot
// be had.
//
// In mode strict one call of a script charges all limits of a request, or none, by the server's clock. The counters
// in process follow: each is given the state that the script found, and the numbers that a response shows are then
// computed from it by the same code as without a shared store. So when the store fails, they are where the limiter
// goes on.
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
	server    *server
	prefix    string // of all its keys in the store
	salt      string // what keys are hashed with, the same in all gateways
	pool      *pool
	async     bool
	interval  int64 // nanoseconds after which all gateways know what one let pass
	onFailure int
	prefixes  map[*limit]string  // of each limit's keys in the store
	numbers   map[*policy]string // see policyNumbers: for one token
	ledger    *ledger
	peers     map[string]*peer // by a connection's unparsed address, for strictByPeer; the lock of the limit's table guards it
}

// chargeShared is chargeAll for limits that are shared. outcome says whether there was a decision; if there was,
// refusal is the limit that has longest to wait, or nil.
func chargeShared(s *sharing, charges []*charge, now int64) (refusal *charge, outcome int) {
	call := ""
	if !s.async {
		call = strictCall(s, charges)
	}
	if call == "" {
		return chargeOwing(s, charges, now), counted
	}
	answer := askLine(s.pool, []byte(call), now)
	if answer == away {
		return chargeAlone(s, charges)
	}
	if answer == "" {
		payFirst(s, charges)
		answer = evaluate(s.pool, strictScript, call, now+s.server.timeout)
	}
	refusal = adopt(charges, answer)
	if refusal == unknown {
		return chargeAlone(s, charges)
	}
	return refusal, counted
}

// unknown is what adopt returns when it cannot tell.
var unknown = &charge{}

// chargeAlone does what onFailure says. The clock is read again since the wait may have been long.
func chargeAlone(s *sharing, charges []*charge) (refusal *charge, outcome int) {
	switch s.onFailure {
	case failAllow:
		return nil, lifted
	case failDeny:
		return nil, declined
	}
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

// strictCall is the call of the script for a request's charges, but those without a limit; "" if none has one. It
// notes what each is to take, and under which policy.
func strictCall(s *sharing, charges []*charge) string {
	keys, numbers := "", ""
	count := 0
	for _, ch := range charges {
		l := ch.limit
		p := l.numbers.policy
		if l.numbers.overrides != nil {
			p = policyFor(l.numbers, ch.key)
		}
		ch.policy = p
		if p.kind == unlimited {
			continue
		}
		ch.units = p.token
		number := s.numbers[p]
		if ch.cost != 1 {
			number = costNumbers(ch)
		}
		key := s.prefixes[l] + ch.key
		if len(key) < lengthCount {
			keys += lengths[len(key)]
			keys += key
			keys += "\r\n"
		} else {
			keys += arguments(key)
		}
		numbers += number
		count++
	}
	if count == 0 {
		return ""
	}
	return strictScript.heads[count] + keys + numbers
}

// costNumbers is policyNumbers of a charge that costs other than one token.
func costNumbers(ch *charge) string {
	ch.units = ch.cost * ch.policy.token
	if ch.cost > ch.policy.size { // see lacks
		ch.units = ch.policy.capacity + 1
	}
	return policyNumbers(ch.policy, ch.units, dryOption(ch.limit))
}

// dryOption is the script's option for a limit.
func dryOption(l *limit) int64 {
	if l.dryRun {
		return 1
	}
	return 0
}

// askLine sends a call and returns the answer, a line that begins with "+". It is what nearly every request needs of
// a pool and its connections, in one function: an idle connection, nothing owed, and a server that does as it is
// told. In all other cases it returns what board does: an answer, away, or "", and then evaluate may still get an
// answer.
func askLine(p *pool, call []byte, now int64) string {
	var line []byte
	var err error
	p.mu.Lock()
	p.asked = now
	last := len(p.idle) - 1
	if last < 0 || p.owing {
		return board(p, call)
	}
	c := p.idle[last]
	p.idle = p.idle[:last]
	p.mu.Unlock()
	if c.renewAt < now {
		renew(c, now, p.server.timeout)
	}
	_, err = c.net.Write(call)
	if err == nil {
		line, err = c.reader.ReadSlice('\n')
	}
	if err != nil || line[0] != statusReply {
		failedLine(p, c, string(line), err)
		return ""
	}
	answer := string(line)
	release(p, c)
	return answer
}

// renew puts off a connection's deadline. It is renewed when a fifth of it has passed and not for each request, so
// that a request has four fifths of the timeout at least.
func renew(c *respConn, now, timeout int64) {
	c.renewAt = now + timeout/5
	_ = c.net.SetDeadline(start.Add(time.Duration(now + timeout))) // if it fails, so does what follows
}

// failedLine puts away a connection that answered with anything but a line that begins with "+".
func failedLine(p *pool, c *respConn, line string, err error) {
	switch {
	case err == nil && strings.HasPrefix(line, "-NOSCRIPT"):
		release(p, c)
	case err == nil && line[0] == errorReply:
		refused(p, c, strings.TrimSpace(line[1:]))
	case os.IsTimeout(err):
		fail(p, c, "no answer in time")
	default:
		discard(p, c, false) // the server closed it, perhaps long ago, or it is none
	}
}

// refused puts away a connection whose server answered with an error.
func refused(p *pool, c *respConn, problem string) {
	word, _, _ := strings.Cut(problem, " ")
	switch word {
	case "MOVED", "ASK", "READONLY", "MASTERDOWN", "LOADING", "CLUSTERDOWN", "TRYAGAIN":
		discard(p, c, true) // another server has the key, or takes it
	default:
		fail(p, c, problem)
	}
}

// evaluate calls a script, by its text, and returns the answer, with a "+" before it; "" when there was no server to
// be had until deadline.
func evaluate(p *pool, s *script, call string, deadline int64) string {
	for tries := 0; tries < 3; tries++ {
		c := acquire(p, deadline)
		if c == nil {
			return ""
		}
		err := ask(c, call, 1, deadline)
		if err == nil && strings.HasPrefix(c.replies[0].text, "NOSCRIPT") {
			err = ask(c, byText(s, call), 1, deadline)
		}
		switch {
		case err == nil && c.replies[0].kind != errorReply:
			answer := "+" + c.replies[0].text
			release(p, c)
			return answer
		case err == nil:
			refused(p, c, c.replies[0].text)
		case os.IsTimeout(err):
			fail(p, c, "no answer in time")
		default:
			discard(p, c, false)
		}
	}
	return ""
}

// adopt gives the counters in process the states that the script found, and does with them what it did. It returns
// the charge that refuses the request, or nil; unknown when the answer is none.
func adopt(charges []*charge, answer string) *charge {
	var a, b, now int64
	var refusal *charge
	words := strings.Fields(answer)
	next := 1
	now = int64(time.Since(start))
	for _, ch := range charges {
		if ch.policy.kind == unlimited {
			continue
		}
		if len(words) < next+2 {
			return unknown
		}
		a, _ = strconv.ParseInt(words[next], 10, 64)
		next++
		b, _ = strconv.ParseInt(words[next], 10, 64)
		next++
		if ch.policy.kind == smoothBucket {
			refusal = adoptSmooth(ch, refusal, a, now, words[0])
		} else {
			refusal = adoptOther(ch, refusal, a, b, now, words[0])
		}
	}
	if refusal == nil && (len(words) == 0 || words[0] != passed) {
		return unknown
	}
	return refusal
}

// passed is the first word of the answer when the script charged what it could.
const passed = "+1"

// adoptSmooth is adopt for one smooth bucket, of which units are spent. It is setState, take and stand written out,
// since it is what most requests run.
func adoptSmooth(ch, refusal *charge, units, now int64, verdict string) *charge {
	t := ch.limit.table
	p := ch.policy
	t.mu.Lock()
	c := t.live[ch.key]
	if c == nil {
		c = admit(t, ch.key, now)
	}
	c.policy = p
	ch.counter = c
	c.at = now + units
	if units > p.capacity-ch.units {
		refusal = lacks(ch, refusal, now)
	} else if verdict == passed {
		units += ch.units
		c.at = now + units
	}
	if units > 0 && units <= p.capacity {
		ch.left = (p.capacity - units) / p.token
		ch.next = (units-1)%p.token + 1
		ch.reset = t.resets[(now+ch.next-1)/second]
	}
	if ch.reset == nil {
		stand(ch, now)
	}
	t.mu.Unlock()
	return refusal
}

// adoptOther is adopt for one of any other kind.
func adoptOther(ch, refusal *charge, a, b, now int64, verdict string) *charge {
	t := ch.limit.table
	t.mu.Lock()
	c := t.live[ch.key]
	if c == nil {
		c = admit(t, ch.key, now)
	}
	c.policy = ch.policy
	ch.counter = c
	setState(c, a, b, now)
	if c.spent > c.policy.capacity-ch.units {
		refusal = lacks(ch, refusal, now)
	} else if verdict == passed {
		c.spent += ch.units
	}
	stand(ch, now)
	t.mu.Unlock()
	return refusal
}

// setState puts a counter into a state as a script writes it, which is of now.
func setState(c *counter, a, b, now int64) {
	if c.policy.kind == smoothBucket {
		c.at = now + a
		c.spent = 0
		return
	}
	c.at = now - b*microsecond
	c.spent = a
}

// stateNumber reads a number of a state. What no script writes is nothing spent.
func stateNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxUnits {
		return 0
	}
	return n
}

// The scripts, and the encoded length of every word of less than lengthCount bytes. They are made in init, since
// Yaegi has its own mind about the order of initialisers.
var (
	strictScript, settleScript *script
	lengths                    []string
)

const lengthCount = 256

func init() {
	strictScript, settleScript = newScript(scriptNow+strictText), newScript(scriptNow+settleText)
	for n := 0; n < lengthCount; n++ {
		lengths = append(lengths, "$"+strconv.Itoa(n)+"\r\n")
	}
}
