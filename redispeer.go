package sluice

import (
	"net/http"
	"strconv"
	"time"
)

// strictByPeer is bucketByPeer for a bucket that is shared in mode strict: the same one limit, in the same manner of
// writing. All that a connection's requests have in common, the encoded call above all, is kept.
type strictByPeer struct {
	general *middleware
	next    http.Handler
	table   *table
	sharing *sharing
	pool    *pool
}

// peer is what the requests of one connection have in common. It never changes.
type peer struct {
	call    []byte
	counter *counter // in process
	turned  int64    // the table's when counter was looked up: it may have been dropped since
}

func newStrictByPeer(m *middleware, s *sharing) http.Handler {
	return &strictByPeer{general: m, next: m.next, table: m.rules.limits[0].table, sharing: s, pool: s.pool}
}

func (b *strictByPeer) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	var now, spent, left int64
	var err error
	var header http.Header
	if req.Method == "OPTIONS" {
		serve(b.general, rw, req) // it may be a preflight
		return
	}
	now = int64(time.Since(start))
	t := b.table
	t.mu.Lock()
	from := b.sharing.peers[req.RemoteAddr]
	if from == nil || from.turned != t.turned {
		from = newPeer(b, req, now)
	}
	t.mu.Unlock()
	answer := askLine(b.pool, from.call, now)
	end := len(answer) - 4
	if end < 4 || answer[1] != '1' {
		strictRest(b, rw, req, answer)
		return
	}
	spent, err = strconv.ParseInt(answer[3:end], 10, 64) // "+1 SPENT 0\r\n"
	now = int64(time.Since(start))

	policy := from.counter.policy
	spent += policy.token
	left = policy.capacity - spent
	t.mu.Lock()
	from.counter.at = now + spent // setState, take
	spent--
	spent %= policy.token
	spent += now
	spent /= second // the second in which the next token comes back
	reset := t.resets[spent]
	if reset == nil {
		reset = newReset(t, spent)
	}
	t.mu.Unlock()

	left /= policy.token
	if left < 0 || err != nil {
		left = 0 // a server that is none
	}
	header = rw.Header()
	header["X-Ratelimit-Limit"] = policy.limitHeader
	header["X-Ratelimit-Remaining"] = wholeNumber(left)
	header["X-Ratelimit-Reset"] = reset
	b.next.ServeHTTP(rw, req)
}

// newPeer makes and keeps what a request's connection is asked for with. The table is locked.
func newPeer(b *strictByPeer, req *http.Request, now int64) *peer {
	s := b.sharing
	l := b.general.rules.limits[0]
	t := b.table
	key := clientKey(&visit{rules: b.general.rules, req: req, now: now})
	c := t.live[key]
	if c == nil {
		c = admit(t, key, now)
	}
	c.policy = l.numbers.policy
	call := strictScript.heads[1] + arguments(s.prefixes[l]+key) + s.numbers[c.policy]
	from := &peer{call: []byte(call), counter: c, turned: t.turned}
	if s.peers == nil || len(s.peers) >= maxPeers {
		s.peers = map[string]*peer{}
	}
	s.peers[req.RemoteAddr] = from
	return from
}

// strictRest serves a request whose call was answered with anything but that it passes.
func strictRest(b *strictByPeer, rw http.ResponseWriter, req *http.Request, answer string) {
	if answer == "" || answer == away {
		serve(b.general, rw, req)
		return
	}
	r := b.general.rules
	charges, _ := chargesOf(&visit{rules: r, req: req, now: int64(time.Since(start))})
	strictCall(b.sharing, charges)
	refusal := adopt(charges, answer)
	if refusal == nil || refusal == unknown {
		serve(b.general, rw, req)
		return
	}
	writeHeaders(rw.Header(), r, charges, refusal)
	refuse(rw, req, &r.reject, charges, refusal)
	announce(charges)
}

// asyncByPeer is bucketByPeer in mode async: the same, and a note of what was taken. It stands apart since a line
// there would cost also those who share nothing.
type asyncByPeer struct {
	bucket  *bucketByPeer
	sharing *sharing
}

func (b *asyncByPeer) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	var now, full, left int64
	var header http.Header
	now = int64(time.Since(start))
	t := b.bucket.table
	t.mu.Lock()
	c := t.peers[req.RemoteAddr]
	if c == nil || req.Method == "OPTIONS" {
		serveOther(b.bucket, rw, req)
		return
	}
	p := c.policy
	full = c.at
	if full < now { // settleSmooth
		full = now
	}
	full += p.token
	left = p.capacity + now
	left -= full
	if left < 0 {
		refusePeer(b.bucket, rw, req, now, -left)
		return
	}
	c.at = full // take
	full -= now
	full--
	full %= p.token
	full += now
	full /= second
	reset := t.resets[full]
	if reset == nil {
		reset = newReset(t, full)
	}
	t.mu.Unlock()
	owePeer(b.sharing, b.bucket.general, req, p, now)

	left /= p.token
	header = rw.Header()
	header["X-Ratelimit-Limit"] = p.limitHeader
	header["X-Ratelimit-Remaining"] = wholeNumber(left)
	header["X-Ratelimit-Reset"] = reset
	b.bucket.next.ServeHTTP(rw, req)
}
