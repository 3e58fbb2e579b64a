// Package naive is a token bucket by address as anyone would write it in compiled Go: what Sluice's request path is measured against.
package naive

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

type Config struct{}

func CreateConfig() *Config { return &Config{} }

const (
	burst = 1000
	rate  = 1e9 // tokens a second: enough for all
)

type bucket struct {
	tokens float64
	filled time.Time
}

type limiter struct {
	next    http.Handler
	mu      sync.Mutex
	buckets map[string]*bucket
}

func New(_ context.Context, next http.Handler, _ *Config, _ string) (http.Handler, error) {
	return &limiter{next: next, buckets: map[string]*bucket{}}, nil
}

func (l *limiter) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		host = req.RemoteAddr
	}
	now := time.Now()
	l.mu.Lock()
	b := l.buckets[host]
	if b == nil {
		b = &bucket{tokens: burst, filled: now}
		l.buckets[host] = b
	}
	b.tokens += now.Sub(b.filled).Seconds() * rate
	if b.tokens > burst {
		b.tokens = burst
	}
	b.filled = now
	allowed := b.tokens >= 1
	if allowed {
		b.tokens--
	}
	remaining := int(b.tokens)
	l.mu.Unlock()

	rw.Header().Set("X-RateLimit-Limit", strconv.Itoa(burst))
	rw.Header().Set("X-RateLimit-Remaining", strconv.Itoa(remaining))
	rw.Header().Set("X-RateLimit-Reset", strconv.FormatInt(now.Unix()+1, 10))
	if !allowed {
		rw.WriteHeader(http.StatusTooManyRequests)
		return
	}
	l.next.ServeHTTP(rw, req)
}
