package sluice_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These tests drive the plugin from outside, through build. They run compiled here and interpreted in
// e2e/interpreted, which has links to the files. Periods are so long that no token comes back while a test runs.

// options is a plugin's options as a provider delivers them.
type options = map[string]any

var middlewares atomic.Int64

// fresh is the name of a middleware that nobody has used: counters outlive handlers.
func fresh(t testing.TB) string {
	return fmt.Sprintf("%s-%d@file", t.Name(), middlewares.Add(1))
}

// service answers as a backend does that knows nothing of limits.
var service = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("X-Service", "yes")
	_, _ = io.WriteString(rw, "served")
})

// limited is a new middleware in front of service.
func limited(t testing.TB, o options) http.Handler {
	t.Helper()
	return named(t, o, fresh(t))
}

// named is a handler of the middleware of this name, in front of service.
func named(t testing.TB, o options, name string) http.Handler {
	t.Helper()
	h, err := build(quiet(o), service, name)
	require.NoError(t, err)
	return h
}

// quiet is the same options without a log, unless they have one.
func quiet(o options) options {
	silent := options{"log": options{"level": "none"}}
	for name, value := range o {
		silent[name] = value
	}
	return silent
}

// request is a GET of / from an address, with headers as alternating names and values.
func request(peer string, headers ...string) *http.Request {
	req := httptest.NewRequest(http.MethodGet, "http://example.com/", nil)
	req.RemoteAddr = peer
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return req
}

// send returns a handler's response.
func send(h http.Handler, req *http.Request) *http.Response {
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, req)
	return recorder.Result()
}

// statuses sends the same request so many times.
func statuses(h http.Handler, count int, peer string, headers ...string) []int {
	var all []int
	for i := 0; i < count; i++ {
		all = append(all, send(h, request(peer, headers...)).StatusCode)
	}
	return all
}

const (
	alice = "192.0.2.1:40000"
	bob   = "192.0.2.2:40000"
)

// everyAlgorithm is limits of two requests for each address.
var everyAlgorithm = map[string]options{
	"short form":      {"average": 2, "period": "1h"},
	"smooth bucket":   {"limits": []any{options{"average": 2, "period": "1h"}}},
	"interval bucket": {"limits": []any{options{"average": 2, "period": "1h", "refill": "interval"}}},
	"first window":    {"limits": []any{options{"requests": 2, "window": "1h"}}},
	"clock window":    {"limits": []any{options{"requests": 2, "window": "87600h", "align": "clock"}}},
}

func TestEveryAlgorithmCountsEveryKey(t *testing.T) {
	for name, o := range everyAlgorithm {
		h := limited(t, o)
		require.Equal(t, []int{200, 200, 429, 429}, statuses(h, 4, alice), name)
		require.Equal(t, []int{200, 200, 429}, statuses(h, 3, bob), name)
	}
}

func TestResponsesTellWhereTheClientStands(t *testing.T) {
	for name, want := range map[string]time.Duration{"short form": 30 * time.Minute, "smooth bucket": 30 * time.Minute, "interval bucket": time.Hour, "first window": time.Hour} {
		h := limited(t, everyAlgorithm[name])
		for i, remaining := range []string{"1", "0", "0", "0"} {
			began := time.Now()
			response := send(h, request(alice))
			require.Equal(t, i > 1, response.StatusCode == http.StatusTooManyRequests, name)
			require.Equal(t, []string{"2"}, response.Header["X-Ratelimit-Limit"], name)
			require.Equal(t, []string{remaining}, response.Header["X-Ratelimit-Remaining"], name)
			require.Len(t, response.Header["X-Ratelimit-Reset"], 1, name)
			reset, err := strconv.ParseInt(response.Header.Get("X-Ratelimit-Reset"), 10, 64)
			require.NoError(t, err, name)
			require.InDelta(t, began.Add(want).Unix(), reset, 2, name)
			if i > 1 {
				after, err := strconv.ParseInt(response.Header.Get("Retry-After"), 10, 64)
				require.NoError(t, err, name)
				require.InDelta(t, want.Seconds(), after, 1, name)
			} else {
				require.Empty(t, response.Header["Retry-After"], name)
				require.Equal(t, "yes", response.Header.Get("X-Service"), name)
			}
		}
	}
}

// TestRetryAfterIsTrue: after that many seconds the same request passes. It is the one test that waits, for a second.
func TestRetryAfterIsTrue(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]options{
		"smooth bucket": {"average": 1, "burst": 2},
		"first window":  {"limits": []any{options{"requests": 2, "window": "1s"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := limited(t, o)
			require.Equal(t, []int{200, 200}, statuses(h, 2, alice))
			refusal := send(h, request(alice))
			require.Equal(t, http.StatusTooManyRequests, refusal.StatusCode)
			require.Equal(t, "1", refusal.Header.Get("Retry-After"))
			time.Sleep(time.Second)
			require.Equal(t, http.StatusOK, send(h, request(alice)).StatusCode)
		})
	}
}

func TestRefusalIsAProblemDocument(t *testing.T) {
	h := limited(t, options{"limits": []any{options{"name": "per-ip", "average": 1, "period": "1h"}}})
	send(h, request(alice))
	refusal := send(h, request(alice))
	require.Equal(t, "application/problem+json", refusal.Header.Get("Content-Type"))
	require.Empty(t, refusal.Header.Get("X-Service"), "the service must not see it")
	var problem struct {
		Type, Title, Detail string
		Status              int
		Violated            []string `json:"violated-policies"`
	}
	require.NoError(t, json.NewDecoder(refusal.Body).Decode(&problem))
	require.Equal(t, "https://iana.org/assignments/http-problem-types#quota-exceeded", problem.Type)
	require.Equal(t, 429, problem.Status)
	require.Equal(t, []string{"per-ip"}, problem.Violated)
	require.Contains(t, problem.Detail, refusal.Header.Get("Retry-After"))
}

func TestHEADHasNoBody(t *testing.T) {
	for name, o := range everyAlgorithm {
		h := limited(t, o)
		statuses(h, 2, alice)
		req := request(alice)
		req.Method = http.MethodHead
		refusal := send(h, req)
		require.Equal(t, http.StatusTooManyRequests, refusal.StatusCode, name)
		body, err := io.ReadAll(refusal.Body)
		require.NoError(t, err, name)
		require.Empty(t, body, name)
		require.NotEmpty(t, refusal.Header.Get("Retry-After"), name)
	}
}

// TestWriterIsPassedUntouched: whatever streams or takes over the connection needs the server's own writer.
func TestWriterIsPassedUntouched(t *testing.T) {
	for name, o := range everyAlgorithm {
		var got http.ResponseWriter
		next := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { got = rw })
		h, err := build(o, next, fresh(t))
		require.NoError(t, err, name)
		for i := 0; i < 2; i++ { // the second request of a connection may go another way
			recorder := httptest.NewRecorder()
			h.ServeHTTP(recorder, request(alice))
			require.Same(t, recorder, got, name)
		}
	}
}

func TestRequestIsPassedUntouched(t *testing.T) {
	for name, o := range everyAlgorithm {
		var got *http.Request
		next := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { got = req })
		h, err := build(o, next, fresh(t))
		require.NoError(t, err, name)
		for i := 0; i < 2; i++ {
			req := request(alice)
			h.ServeHTTP(httptest.NewRecorder(), req)
			require.Same(t, req, got, name)
		}
	}
}

func TestSeveralLimits(t *testing.T) {
	h := limited(t, options{"limits": []any{
		options{"name": "all", "requests": 3, "window": "1h", "key": "global"},
		options{"name": "each", "average": 2, "period": "1h", "key": "ip"},
	}})
	response := send(h, request(alice))
	require.Equal(t, "2", response.Header.Get("X-Ratelimit-Limit"), "the limit with the fewest requests left is shown")
	require.Equal(t, "1", response.Header.Get("X-Ratelimit-Remaining"))
	require.Equal(t, []int{200}, statuses(h, 1, alice))
	for i := 0; i < 5; i++ { // none of them is charged to "all"
		refusal := send(h, request(alice))
		require.Equal(t, http.StatusTooManyRequests, refusal.StatusCode)
		require.Equal(t, "2", refusal.Header.Get("X-Ratelimit-Limit"))
	}
	require.Equal(t, http.StatusOK, send(h, request(bob)).StatusCode)
	refusal := send(h, request(bob))
	require.Equal(t, http.StatusTooManyRequests, refusal.StatusCode)
	require.Equal(t, "3", refusal.Header.Get("X-Ratelimit-Limit"))
	require.Equal(t, http.StatusTooManyRequests, send(h, request(alice)).StatusCode)
}

func TestHeadersNone(t *testing.T) {
	h := limited(t, options{"average": 1, "period": "1h", "headers": []any{"none"}})
	for _, status := range []int{200, 429} {
		response := send(h, request(alice))
		require.Equal(t, status, response.StatusCode)
		require.Equal(t, status == 429, response.Header.Get("Retry-After") != "", "Retry-After stays")
		for name := range response.Header {
			require.NotContains(t, strings.ToLower(name), "ratelimit")
		}
	}
}

// TestSameClient: which peers are one client.
func TestSameClient(t *testing.T) {
	for _, row := range []struct {
		one, other string
		same       bool
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:1", true},
		{"192.0.2.1:1", "192.0.2.2:1", false},
		{"[2001:db8::1]:1", "[2001:db8::ffff:ffff:ffff:ffff]:2", true},
		{"[2001:DB8:0::1]:1", "[2001:db8::2]:2", true},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"[fe80::1%eth0]:1", "[fe80::1%eth1]:1", true},
		{"@", "", true}, // a Unix socket
	} {
		for name, o := range everyAlgorithm {
			h := limited(t, o)
			require.Equal(t, []int{200, 200}, statuses(h, 2, row.one))
			want := http.StatusOK
			if row.same {
				want = http.StatusTooManyRequests
			}
			require.Equal(t, []int{want}, statuses(h, 1, row.other), "%s: %s and %s", name, row.one, row.other)
		}
	}
}

// TestClientBehindAProxy: the strategy may stand at the top, or where Traefik's own rateLimit has it.
func TestClientBehindAProxy(t *testing.T) {
	limits := []any{options{"requests": 1, "window": "1h"}}
	for _, strategy := range []options{{"depth": 1}, {"excludedIPs": "10.0.0.0/8, 192.0.2.1"}} {
		for i, o := range []options{
			{"limits": limits, "ipStrategy": strategy},
			{"average": 1, "period": "1h", "ipStrategy": strategy},
			{"average": 1, "period": "1h", "sourceCriterion": options{"ipStrategy": strategy}},
		} {
			h := limited(t, o)
			for _, client := range []string{"198.51.100.1", "198.51.100.2", "2001:db8::1"} {
				require.Equal(t, []int{200, 429}, statuses(h, 2, alice, "X-Forwarded-For", "203.0.113.1, "+client), "%v, form %d", strategy, i)
			}
			require.Equal(t, []int{200, 429}, statuses(h, 2, alice), "%v, form %d: without the header", strategy, i)
		}
	}
}

// TestSourceCriterion is Traefik's option in its other two forms.
func TestSourceCriterion(t *testing.T) {
	h := limited(t, options{"average": 1, "period": "1h", "sourceCriterion": options{"requestHeaderName": "x-tenant"}})
	require.Equal(t, []int{200, 429}, statuses(h, 2, alice, "X-Tenant", "a"))
	require.Equal(t, []int{429}, statuses(h, 1, bob, "X-Tenant", "a"))
	require.Equal(t, []int{200}, statuses(h, 1, bob, "X-Tenant", "b"))

	h = limited(t, options{"average": 1, "period": "1h", "sourceCriterion": options{"requestHost": true}})
	require.Equal(t, []int{200, 429}, statuses(h, 2, alice))
	other := request(alice)
	other.Host = "other.example.com"
	require.Equal(t, http.StatusOK, send(h, other).StatusCode)
}

// TestSpellings: a number means the same from every provider.
func TestSpellings(t *testing.T) {
	for _, o := range []options{
		{"average": 10, "period": "24h"},
		{"average": 10.0, "period": "24h"},
		{"average": int64(10), "period": 86400},
		{"average": "10", "period": "86400"},
		{"average": "010", "period": " 24h "},
		{"Average": "10", "PERIOD": "1440m"},
		{"average": 0.5, "period": "24h", "burst": 10},
		{"limits": options{"average": "10", "period": "24h"}}, // a list of one
		{"limits": []any{options{"average": "10", "period": "24h", "key": "ip"}}},
		{"average": 10, "period": "24h", "headers": "x-ratelimit", "ipStrategy": options{"depth": 0}, "maxKeys": "1000"},
	} {
		response := send(limited(t, o), request(alice))
		require.Equal(t, "10", response.Header.Get("X-Ratelimit-Limit"), o)
		require.Equal(t, "9", response.Header.Get("X-Ratelimit-Remaining"), o)
	}
	require.Equal(t, "3", send(limited(t, options{"average": 2.5, "period": "24h"}), request(alice)).Header.Get("X-Ratelimit-Limit"), "the default burst is rounded up")
	require.Equal(t, "1", send(limited(t, options{"average": 0.5}), request(alice)).Header.Get("X-Ratelimit-Limit"))
	require.Equal(t, "5000", send(limited(t, options{"average": 5001, "burst": 5000, "period": "24h"}), request(alice)).Header.Get("X-Ratelimit-Limit"))
	require.Equal(t, "4999", send(limited(t, options{"average": 5001, "burst": 5000, "period": "24h"}), request(alice)).Header.Get("X-Ratelimit-Remaining"))
}
