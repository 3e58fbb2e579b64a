// Package sluice is a Traefik v3 middleware plugin that limits requests: per client address with token buckets, and per key
// with fixed windows. It tells every client where it stands in rate-limit headers on every response, and asks nothing
// of the services behind it.
//
// Traefik does not compile this package, it interprets it with Yaegi, and that decides how the request path looks. A
// call of an interpreted function costs more than most of what happens in it, and a function pays on entry for every
// expression written in it, executed or not; methods, interfaces, closures and defer cost several times that, while a
// map access or a call into the standard library runs compiled. So what every request runs is few, short, plain
// functions that hold only the common path; rare branches are functions of their own; and whatever can be known before
// is computed in New.
package sluice

import (
	"context"
	"net/http"
	"time"
)

// Config is the plugin's options, as they stand under `plugin: sluice:` in Traefik's dynamic configuration. Numbers and
// durations are strings here so that they mean the same from every provider (see number.go). Every struct has a field
// that catches unknown options: Traefik's decoder would drop them silently, and the limit with them.
type Config struct {
	// Average, Period, Burst and SourceCriterion are Traefik's own rateLimit block: one token bucket.
	Average         string           `json:"average,omitempty"`
	Period          string           `json:"period,omitempty"`
	Burst           string           `json:"burst,omitempty"`
	SourceCriterion *SourceCriterion `json:"sourceCriterion,omitempty"`

	// Limits is the full form. Every limit must have room, and a request that one refuses is charged to none.
	Limits []LimitConfig `json:"limits,omitempty"`
	// IPStrategy says how to find the client's address.
	IPStrategy *IPStrategy `json:"ipStrategy,omitempty"`
	// Headers is the styles of rate-limit header fields to send: x-ratelimit (the default) or none.
	Headers []string `json:"headers,omitempty"`
	// MaxKeys bounds how many keys each limit remembers. Default 100000.
	MaxKeys string `json:"maxKeys,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// LimitConfig is one limit: a token bucket (Average, Period, Burst, Refill) or a fixed window (Requests, Window, Align).
type LimitConfig struct {
	// Name is shown in headers, logs and errors; a-z, 0-9 and "-". Default limit-1, limit-2 and so on.
	Name string `json:"name,omitempty"`

	// Average is the tokens added per Period. A decimal number above 0.
	Average string `json:"average,omitempty"`
	// Period is a duration. Default 1s.
	Period string `json:"period,omitempty"`
	// Burst is how many tokens the bucket holds. Default Average rounded up.
	Burst string `json:"burst,omitempty"`
	// Refill is smooth (tokens come back one by one, the default) or interval (Average at once, every Period).
	Refill string `json:"refill,omitempty"`

	// Requests is how many requests a window allows.
	Requests string `json:"requests,omitempty"`
	// Window is the window's length, a duration.
	Window string `json:"window,omitempty"`
	// Align is first (a window opens at the key's first request, the default) or clock (UTC multiples of Window).
	Align string `json:"align,omitempty"`

	// Key is what makes one key: ip (the default), host, method, path, header:NAME, global, or several of them.
	Key []string `json:"key,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// SourceCriterion is Traefik's option of this name: what the single limit of the short form counts by. At most one field may be set.
type SourceCriterion struct {
	IPStrategy        *IPStrategy `json:"ipStrategy,omitempty"`
	RequestHeaderName string      `json:"requestHeaderName,omitempty"`
	RequestHost       string      `json:"requestHost,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// IPStrategy says how to find the client's address, as Traefik's option of this name does.
type IPStrategy struct {
	// Depth is the position in X-Forwarded-For, counted from the right. 0 (the default) takes the peer's address.
	Depth string `json:"depth,omitempty"`
	// ExcludedIPs is addresses and CIDRs of trusted proxies: the client is the rightmost in X-Forwarded-For that is none of them.
	ExcludedIPs []string `json:"excludedIPs,omitempty"`
	// IPv6Subnet is how many bits of an IPv6 address make one client. Default 64, since a subscriber gets a /64 or more.
	IPv6Subnet string `json:"ipv6Subnet,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// CreateConfig returns the options' defaults. New fills in those that depend on other options.
func CreateConfig() *Config { return &Config{} }

// New returns a handler that limits the requests to next. name is the middleware's, the same for every router that uses it: those
// handlers share their counters, and so do the handlers of later reloads. The error is the first mistake found in
// config, and names the option.
func New(_ context.Context, next http.Handler, config *Config, name string) (http.Handler, error) {
	r, err := rulesFor(name, config)
	if err != nil {
		return nil, err
	}
	m := &middleware{rules: r, next: next}
	if r.simple {
		return &bucketByPeer{general: m, next: next, table: r.limits[0].table}, nil
	}
	return m, nil
}

// middleware is one router's handler.
type middleware struct {
	rules *rules
	next  http.Handler
}

// ServeHTTP limits one request. It finds the counters of the request's keys, charges all of them or none, tells the client in the
// response's header where it stands, and calls the next handler or refuses. The ResponseWriter is handed on
// untouched, so that whatever streams, or takes over the connection, works as it does without the plugin.
func (m *middleware) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	serve(m, rw, req)
}

func serve(m *middleware, rw http.ResponseWriter, req *http.Request) {
	v := &visit{rules: m.rules, req: req, now: int64(time.Since(start))}
	charges := chargesOf(v)
	refusal := chargeAll(charges, v.now)
	writeHeaders(rw.Header(), m.rules, charges, refusal)
	if refusal != nil {
		refuse(rw, req, refusal)
		return
	}
	m.next.ServeHTTP(rw, req)
}

// bucketByPeer is the handler of the most frequent configuration, a single smooth bucket for the peer's address. It does what middleware
// does, written out in one function for the reason given at the package's top, with as few expressions as will do.
type bucketByPeer struct {
	general *middleware
	next    http.Handler
	table   *table
}

func (b *bucketByPeer) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	t := b.table
	now := int64(time.Since(start))
	t.mu.Lock()
	c := t.peers[req.RemoteAddr]
	if c == nil {
		c = meet(t, b.general, req, now)
	}
	p := c.policy
	token := p.token
	full := c.at
	if full < now { // settleSmooth
		full = now
	}
	full += token // take
	spent := full - now
	if spent > p.capacity {
		t.mu.Unlock()
		serve(b.general, rw, req)
		return
	}
	c.at = full
	inSecond := (now + (spent-1)%token) / second // resetHeader
	reset := t.resets[inSecond]
	if reset == nil {
		reset = newReset(t, inSecond)
	}
	t.mu.Unlock()

	left := (p.capacity - spent) / token
	header := rw.Header()
	header["X-Ratelimit-Limit"] = p.limitHeader
	if left < smallNumberCount {
		header["X-Ratelimit-Remaining"] = smallNumbers[left]
	} else {
		header["X-Ratelimit-Remaining"] = wholeNumber(left)
	}
	header["X-Ratelimit-Reset"] = reset
	b.next.ServeHTTP(rw, req)
}
