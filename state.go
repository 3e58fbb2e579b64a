package sluice

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The counters of all middlewares. They belong to (middleware name, limit name, key) and live in package-level
// variables: Traefik keeps one interpreter for the life of its process but calls New again for every router and every
// reload, and what a handler holds is forgotten then.
//
// A table is the counters of one limit. It keeps them as a generational cache does: those in use are in live; once
// the limit's life has passed, live becomes idle and what was idle is dropped whole. A counter that is found in idle
// moves back to live. What gets dropped has thus been left alone for at least the time in which any bucket fills and
// any window ends: forgetting it changes nothing, and as nothing ever walks the table, no pause grows with it.
//
// A table has one lock. It is held for a map read and a little arithmetic, a small part of what Traefik spends on a
// request, so that cores seldom wait for it; finding one of several locks first would cost every request more.

const (
	second      = int64(time.Second)
	millisecond = int64(time.Millisecond)

	// turnAtLeast keeps limits that fill within moments from turning their maps over all the time.
	turnAtLeast = 60 * second
	// sampleSize is how many counters of a full table are looked at to find one to drop.
	sampleSize = 8
	// maxIdle bounds how many idle maps a table has. There is one, and one more for each change of numbers within a
	// limit's life.
	maxIdle = 4
	// maxPeers and maxResets bound the small caches of a table; when one is full it begins anew.
	maxPeers   = 8192
	maxResets  = 256
	maxAnswers = 256
	// fadeEvery is how often tables that nobody asks are looked after.
	fadeEvery = time.Minute
)

// start is the clock's zero: int64(time.Since(start)) is what now means everywhere. It is a single library call, and
// monotonic. On the wall clock it is the beginning of a second, so that seconds of the two begin together.
var start = startOfSecond(time.Now())

func startOfSecond(t time.Time) time.Time { return t.Add(-time.Duration(t.Nanosecond())) }

// table is the counters of one limit. What follows order is guarded by mu.
type table struct {
	order int // a request that needs several tables locks them in this order

	mu      sync.Mutex
	numbers *numbers              // the limit's latest
	live    map[string]*counter   // by key
	idle    []map[string]*counter // not touched since the last turn, or since an earlier change of numbers
	turned  int64                 // when live began to be filled
	dropped int64                 // counters that were dropped before their time, because the table was full

	refusals refusals // not reported yet

	// peers has live's counters by a connection's unparsed peer address, which does not change from one request to
	// the next.
	peers map[string]*counter
	// resets has the values of X-RateLimit-Reset by the second that a moment lies in.
	resets map[int64][]string
	// answers has the refusals that bucketByPeer sends, by the whole seconds of the wait.
	answers map[int64]*answer
	// epoch is the Unix time of the clock's zero in nanoseconds, read anew now and then since a wall clock may be
	// set.
	epoch int64
}

// answer is what the refusals with one Retry-After have in common.
type answer struct {
	limit, retryAfter, contentType []string
	body                           []byte
}

// numbers is what a limit counts by.
type numbers struct {
	policy    *policy
	overrides map[string]*policy // by key
	maxKeys   int64
	life      int64 // nanoseconds after which a counter that was left alone says as much as none
}

// policyFor is the policy of one key.
func policyFor(n *numbers, key string) *policy {
	if p := n.overrides[key]; p != nil {
		return p
	}
	return n.policy
}

// admit is the rare half of finding a key's counter in a locked table, for a key that live does not have. Afterwards
// it has.
func admit(t *table, key string, now int64) *counter {
	if t.live == nil {
		startLive(t, now)
		t.epoch = time.Now().UnixNano() - int64(time.Since(start))
	}
	turn(t, now)
	p := policyFor(t.numbers, key)
	// The key may be a piece of a larger string, which would be kept in memory with it.
	key = strings.Clone(key)
	for i := len(t.idle) - 1; i >= 0; i-- {
		if c := t.idle[i][key]; c != nil {
			delete(t.idle[i], key)
			restate(c, p, now, t.epoch)
			t.live[key] = c
			return c
		}
	}
	if room := t.numbers.maxKeys - int64(held(t)); room <= 0 {
		dropOne(t, now)
		if room < 0 { // the bound was lowered: every new key takes two old ones away
			dropOne(t, now)
		}
	}
	c := &counter{at: now, policy: p}
	t.live[key] = c
	return c
}

// startLive gives a locked table a new live map.
func startLive(t *table, now int64) {
	t.live = map[string]*counter{}
	t.peers = nil // its counters were live
	t.turned = now
}

// held is how many counters a table has.
func held(t *table) int {
	n := len(t.live)
	for _, idle := range t.idle {
		n += len(idle)
	}
	return n
}

// turn makes a locked table's live counters idle, and drops those that were idle before, if the limit's life has
// passed since the last turn.
func turn(t *table, now int64) {
	if since := now - t.turned; since < t.numbers.life || since < turnAtLeast {
		return
	}
	t.idle = []map[string]*counter{t.live}
	startLive(t, now)
}

// forgotten is the policy of a counter that was dropped but may still be in peers: it has room for nothing, ever, so
// that the request goes the long way and finds its true counter.
var forgotten = &policy{kind: smoothBucket, token: 1, capacity: -never}

// never is a wait that no bucket a process will see asks for.
const never = maxUnits / 2

// dropOne makes room in a locked table that is full: of small random samples of its maps it drops the counter whose
// loss forgives least. A flood of new keys thus mostly drops its own, and does not free those who have spent much.
func dropOne(t *table, now int64) {
	var from map[string]*counter
	nearest, least := "", int64(0)
	for _, counters := range append(t.idle, t.live) {
		seen := 0
		for key, c := range counters {
			settle(c, now, t.epoch)
			if forgiven := forgives(c, now); from == nil || forgiven < least {
				from = counters
				nearest = key
				least = forgiven
			}
			seen++
			if seen == sampleSize {
				break
			}
		}
	}
	from[nearest].policy = forgotten
	delete(from, nearest)
	if least > 0 {
		t.dropped++
	}
}

// meet puts the counter of a connection's peer into a locked table's peers.
func meet(t *table, m *middleware, req *http.Request, now int64) {
	key := clientKey(&visit{rules: m.rules, req: req, now: now})
	c := t.live[key]
	if c == nil {
		c = admit(t, key, now)
	}
	// bucketByPeer cannot serve what a reload makes of its limit while it still runs: then its requests go the long
	// way.
	if c.policy.kind != smoothBucket || c.policy.size >= smallNumberCount {
		return
	}
	if t.peers == nil || len(t.peers) >= maxPeers {
		t.peers = map[string]*counter{}
	}
	t.peers[req.RemoteAddr] = c
}

// resetHeader is the value of X-RateLimit-Reset for a moment that is not in the past: Unix seconds, rounded up. t is
// locked. The request path has its first half written out.
func resetHeader(t *table, moment int64) []string {
	// A window by the clock ends at a whole second, but for what two readings of two clocks differ: that is not to
	// make it the next one.
	inSecond := (moment - millisecond) / second
	if header := t.resets[inSecond]; header != nil {
		return header
	}
	return newReset(t, inSecond)
}

// newReset makes the header value for all moments in a second of the clock, once for each second that comes up. It is
// also where a table looks at the wall clock.
func newReset(t *table, inSecond int64) []string {
	t.epoch = time.Now().UnixNano() - int64(time.Since(start))
	if t.resets == nil || len(t.resets) >= maxResets {
		t.resets = map[int64][]string{}
	}
	unix := (t.epoch+(inSecond+1)*second-millisecond)/second + 1
	header := []string{strconv.FormatInt(unix, 10)}
	t.resets[inSecond] = header
	return header
}

// registry has the table of every limit that was ever configured (an empty one is small), and each middleware's
// latest rules.
var registry struct {
	mu     sync.Mutex
	tables map[string]*table
	rules  map[string]*rules
}

// rulesFor compiles a middleware's options, or returns what it made of them before: New runs for each router and at
// every reload of anything, nearly always with options that it has seen.
func rulesFor(middleware string, config *Config) (*rules, error) {
	registry.mu.Lock()
	r := registry.rules[middleware]
	registry.mu.Unlock()
	if r != nil && reflect.DeepEqual(r.config, config) {
		return r, nil
	}
	r, err := compile(config, middleware)
	if err != nil {
		return nil, err
	}
	registry.mu.Lock()
	if registry.rules == nil {
		registry.rules = map[string]*rules{}
	}
	registry.rules[middleware] = r
	registry.mu.Unlock()
	return r, nil
}

// tableFor returns the counters of a limit, which count by n from now on: those that it had before, if it had some.
// id is what makes the limit the same as before.
func tableFor(id string, n *numbers) *table {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if registry.tables == nil {
		registry.tables = map[string]*table{}
		time.AfterFunc(fadeEvery, fade)
	}
	t := registry.tables[id]
	if t == nil {
		t = &table{order: len(registry.tables)}
		registry.tables[id] = t
	}
	renumber(t, n)
	return t
}

// renumber gives a table the latest numbers of its limit. Its counters get them when they are next asked for, one by
// one: until then they are idle.
func renumber(t *table, n *numbers) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.numbers != nil && reflect.DeepEqual(t.numbers, n) {
		return
	}
	t.numbers = n
	t.answers = nil
	if len(t.live) == 0 {
		return
	}
	if len(t.idle) < maxIdle {
		t.idle = append(t.idle, t.live)
	} else {
		// Numbers that change all the time: the few keys that were asked for since the last change join those before.
		for key, c := range t.live {
			t.idle[maxIdle-1][key] = c
		}
	}
	startLive(t, int64(time.Since(start)))
}

// fade turns over tables in which no new key did so, so that the limits of removed middlewares give back their
// memory. It is a timer of the package and not a goroutine of a handler: between two looks nothing runs.
func fade() {
	registry.mu.Lock()
	tables := make([]*table, 0, len(registry.tables))
	for _, t := range registry.tables {
		tables = append(tables, t)
	}
	registry.mu.Unlock()
	for _, t := range tables {
		if line, how := fadeTable(t, int64(time.Since(start))); line != "" {
			write(how, line)
		}
	}
	time.AfterFunc(fadeEvery, fade)
}

// fadeTable looks after one table, and returns a line to log about refusals that no later one has brought up.
func fadeTable(t *table, now int64) (string, *logging) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live == nil {
		return "", nil
	}
	line := ""
	how := t.refusals.logging
	if now >= t.refusals.due {
		line = report(t, now)
	}
	turn(t, now)
	if held(t) == 0 {
		t.live = nil // one by one: Yaegi cannot assign several nils at once
		t.idle = nil
		t.peers = nil
		t.resets = nil
		t.answers = nil
	}
	return line, how
}
