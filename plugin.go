// Package sluice is a Traefik v3 middleware plugin that limits requests: per client address with token buckets, and
// per key with fixed windows. It tells every client where it stands in rate-limit headers on every response, and asks
// nothing of the services behind it.
//
// Traefik does not compile this package, it interprets it with Yaegi, and that decides how the request path looks. A
// call of an interpreted function costs more than most of what happens in it, and a function pays on entry for every
// expression written in it, executed or not; methods, interfaces, closures and defer cost several times that, while a
// map access or a call into the standard library runs compiled. So what every request runs is few, short, plain
// functions that hold only the common path; rare branches are functions of their own; and whatever can be known
// before is computed in New.
package sluice

import (
	"context"
	"net/http"
	"time"
)

// Config is the plugin's options, as they stand under `plugin: sluice:` in Traefik's dynamic configuration. Numbers
// and durations are strings here so that they mean the same from every provider (see number.go). Every struct has a
// field that catches unknown options: Traefik's decoder would drop them silently, and the limit with them.
type Config struct {
	// Average, Period, Burst and SourceCriterion are Traefik's own rateLimit block: one token bucket.
	Average         string           `json:"average,omitempty"`
	Period          string           `json:"period,omitempty"`
	Burst           string           `json:"burst,omitempty"`
	SourceCriterion *SourceCriterion `json:"sourceCriterion,omitempty"`

	// Limits is the full form. Every limit that is for a request must have room, and a request that one refuses is
	// charged to none.
	Limits []LimitConfig `json:"limits,omitempty"`
	// IPStrategy says how to find the client's address.
	IPStrategy *IPStrategy `json:"ipStrategy,omitempty"`
	// Exempt is the requests that no limit is for.
	Exempt *ExemptConfig `json:"exempt,omitempty"`
	// Headers is the styles of rate-limit header fields to send: x-ratelimit (the default), ietf, draft-06, or none.
	Headers []string `json:"headers,omitempty"`
	// UpstreamHeaders is what becomes of such fields from the service: add (both are sent, the default) or replace.
	UpstreamHeaders string `json:"upstreamHeaders,omitempty"`
	// Reject is what refusals look like.
	Reject *RejectConfig `json:"reject,omitempty"`
	// DryRun counts and reports, and refuses nothing.
	DryRun string `json:"dryRun,omitempty"`
	// MaxKeys bounds how many keys each limit remembers. Default 100000.
	MaxKeys string `json:"maxKeys,omitempty"`
	// Log is how refusals are reported in Traefik's log.
	Log *LogConfig `json:"log,omitempty"`
	// Redis is where the counters are that several gateways share. Without it they are in this process.
	Redis *RedisConfig `json:"redis,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// CreateConfig returns the options' defaults. New fills in those that depend on other options.
func CreateConfig() *Config { return &Config{} }

// New returns a handler that limits the requests to next. name is the middleware's, the same for every router that
// uses it: those handlers share their counters, and so do the handlers of later reloads. The error is the first
// mistake found in config, and names the option.
func New(_ context.Context, next http.Handler, config *Config, name string) (http.Handler, error) {
	r, err := rulesFor(name, config)
	if err != nil {
		return nil, err
	}
	m := &middleware{rules: r, next: next}
	if r.simple && r.shared != nil && !r.shared.async {
		return newStrictByPeer(m, r.shared), nil
	}
	if r.simple {
		quick := !r.reject.custom && r.reject.jitter == 0 && !r.log.each
		bucket := &bucketByPeer{general: m, next: next, table: r.limits[0].table, quick: quick}
		if r.shared != nil {
			return &asyncByPeer{bucket: bucket, sharing: r.shared}, nil
		}
		return bucket, nil
	}
	return m, nil
}

// middleware is one router's handler.
type middleware struct {
	rules *rules
	next  http.Handler
}

// ServeHTTP limits one request. It finds the counters of the request's keys, charges all of them or none, tells the
// client in the response's header where it stands, and calls the next handler or refuses. The ResponseWriter is
// handed on untouched, so that whatever streams, or takes over the connection, works as it does without the plugin.
func (m *middleware) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	serve(m, rw, req)
}

func serve(m *middleware, rw http.ResponseWriter, req *http.Request) {
	r := m.rules
	v := &visit{rules: r, req: req, now: int64(time.Since(start))}
	if (r.exempts || req.Method == "OPTIONS") && exempted(v, &r.exempt) {
		m.next.ServeHTTP(rw, req)
		return
	}
	charges, missing := chargesOf(v)
	if missing != nil {
		refuseMissing(rw, req, missing)
		return
	}
	var refusal *charge
	if r.shared == nil {
		refusal = chargeAll(charges, v.now)
	} else {
		var outcome int
		refusal, outcome = chargeShared(r.shared, charges, v.now)
		if outcome != counted {
			serveUncounted(m, rw, req, outcome)
			return
		}
	}
	writeHeaders(rw.Header(), r, charges, refusal)
	if refusal != nil {
		refuse(rw, req, &r.reject, charges, refusal)
		announce(charges)
		return
	}
	if r.dryRun {
		announce(charges)
	}
	if r.replace && !isStream(req) {
		rw = newReplacing(rw)
	}
	m.next.ServeHTTP(rw, req)
}

// serveUncounted serves a request that the shared counters could not be asked about, as redis.onFailure says.
func serveUncounted(m *middleware, rw http.ResponseWriter, req *http.Request, outcome int) {
	if outcome == declined {
		refuseUnknown(rw, req)
		return
	}
	m.next.ServeHTTP(rw, req)
}

// bucketByPeer is the handler of the most frequent configuration, a single smooth bucket for the peer's address. It
// does what middleware does, written out in one function. The interpreter gives every expression a place in memory
// whenever the function is called; only the result of an operation that is assigned to a variable declared before
// needs none of its own. Hence the steps of one operation each, and variables that are used twice.
type bucketByPeer struct {
	general *middleware
	next    http.Handler
	table   *table
	quick   bool // refusePeer can refuse
}

func (b *bucketByPeer) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	var now, full, left int64
	var header http.Header
	now = int64(time.Since(start))
	t := b.table
	t.mu.Lock()
	c := t.peers[req.RemoteAddr]
	if c == nil || req.Method == "OPTIONS" {
		serveOther(b, rw, req) // a new connection, or what may be a preflight
		return
	}
	p := c.policy
	full = c.at
	if full < now { // settleSmooth
		full = now
	}
	full += p.token
	left = p.capacity + now
	left -= full // units: the capacity less what is spent
	if left < 0 {
		refusePeer(b, rw, req, now, -left)
		return
	}
	c.at = full // take
	full -= now
	full--
	full %= p.token
	full += now
	full /= second // the second in which the next token comes back, see waitSmooth and resetHeader
	reset := t.resets[full]
	if reset == nil {
		reset = newReset(t, full)
	}
	t.mu.Unlock()

	left /= p.token
	header = rw.Header()
	header["X-Ratelimit-Limit"] = p.limitHeader
	header["X-Ratelimit-Remaining"] = smallNumbers[left] // isSimple has seen that it is there
	header["X-Ratelimit-Reset"] = reset
	b.next.ServeHTTP(rw, req)
}

// refusePeer refuses a request that would have to wait so many nanoseconds for its token. It unlocks the table. In a
// flood nearly all requests end here, so this is written as ServeHTTP is. What it cannot do it leaves to the long
// way, one of many refusals among it, to be counted by name.
func refusePeer(b *bucketByPeer, rw http.ResponseWriter, req *http.Request, now, wait int64) {
	var n int64
	t := b.table
	accept := req.Header["Accept"]
	n = t.refusals.count
	if !b.quick || wait >= never || n < exactRefusals || n%exactRefusals == 0 || req.Method == "HEAD" ||
		accept != nil && accept[0] != "*/*" || req.Header["Content-Type"] != nil {
		serveOther(b, rw, req)
		return
	}
	t.refusals.count++
	wait--
	now += wait
	now /= second // the second in which the token comes
	reset := t.resets[now]
	if reset == nil {
		reset = newReset(t, now)
	}
	a := t.answers[wait/second]
	if a == nil {
		a = newAnswer(b, wait/second)
	}
	t.mu.Unlock()

	header := rw.Header()
	header["X-Ratelimit-Limit"] = a.limit
	header["X-Ratelimit-Remaining"] = smallNumbers[0]
	header["X-Ratelimit-Reset"] = reset
	header["Retry-After"] = a.retryAfter
	header["Content-Type"] = a.contentType
	rw.WriteHeader(http.StatusTooManyRequests)
	_, _ = rw.Write(a.body)
}

// newAnswer keeps what the refusals with one Retry-After have in common, in a locked table.
func newAnswer(b *bucketByPeer, seconds int64) *answer {
	l := b.general.rules.limits[0]
	after := wholeNumber(seconds + 1)
	ch := &charge{limit: l, wait: 1}
	a := &answer{
		limit:       b.table.numbers.policy.limitHeader, // not l's: an old handler may still run beside new ones
		retryAfter:  after,
		contentType: []string{problemType},
		body:        []byte(quotaBody(problemType, http.StatusTooManyRequests, after[0], []*charge{ch})),
	}
	if b.table.answers == nil || len(b.table.answers) >= maxAnswers {
		b.table.answers = map[int64]*answer{}
	}
	b.table.answers[seconds] = a
	return a
}

// serveOther is for the requests that bucketByPeer does not serve itself. It unlocks the table, and sees to it that
// the connection's next request finds its counter.
func serveOther(b *bucketByPeer, rw http.ResponseWriter, req *http.Request) {
	if c := b.table.peers[req.RemoteAddr]; c == nil || c.policy == forgotten {
		meet(b.table, b.general, req, int64(time.Since(start)))
	}
	b.table.mu.Unlock()
	serve(b.general, rw, req)
}
