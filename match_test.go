package sluice_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Which requests a limit is for, and which are exempt.

func matching(t *testing.T, match options) http.Handler {
	t.Helper()
	return limited(t, limits(window(1000, "match", match)))
}

func TestMatchMethods(t *testing.T) {
	h := matching(t, options{"methods": "post, Delete"})
	for method, want := range map[string]bool{"POST": true, "DELETE": true, "GET": false, "PUT": false, "OPTIONS": false} {
		require.Equal(t, want, isCounted(h, ask(method, "/", "")), method)
	}
}

func TestMatchHosts(t *testing.T) {
	h := matching(t, options{"hosts": []any{"API.example.com.", "*.example.org"}})
	for host, want := range map[string]bool{
		"api.example.com":       true,
		"Api.Example.COM:8443":  true,
		"api.example.com.":      true,
		"api.example.com.:80":   true,
		"www.example.com":       false,
		"xapi.example.com":      false,
		"api.example.com.evil":  false,
		"a.example.org":         true,
		"A.B.example.org.:443":  true,
		"example.org":           false,
		"notexample.org":        false,
		"example.org.attack.er": false,
		"[2001:db8::1]:80":      false,
		"":                      false,
	} {
		req := get("/")
		req.Host = host
		require.Equal(t, want, isCounted(h, req), "%q", host)
	}
}

// TestMatchPaths takes patterns of http.ServeMux. A path in another spelling fits what it leads to, as the service
// behind may decode and clean it.
func TestMatchPaths(t *testing.T) {
	h := matching(t, options{"paths": []any{"/login", "/users/{id}", "/files/{rest...}", "/shop/", "/exact/{$}", "/a%20b/ü"}})
	for target, want := range map[string]bool{
		"/login":           true,
		"/login?next=/":    true,
		"/login/":          false, // ServeMux's rule; a pattern of its own
		"/Login":           false,
		"/loginx":          false,
		"/":                false,
		"//login":          true,
		"/./login":         true,
		"/x/../login":      true,
		"/x/%2e%2e/login":  true,
		"/x%2F..%2Flogin":  true,
		"/%6cogin":         true,
		"/users/7":         true,
		"/users/7/posts":   false,
		"/users/":          false,
		"/users/a%2Fb":     false, // a service that decodes it sees /users/a/b
		"/users%2F7":       true,
		"/users//7":        true,
		"/files/":          true,
		"/files/a/b/c.txt": true,
		"/files":           true,
		"/shop":            true, // as ServeMux redirects it
		"/shop/cart/items": true,
		"/exact/":          true,
		"/exact/more":      false,
		"/a%20b/%C3%BC":    true,
		"/..%2f..%2flogin": true,
		"/login%00":        false,
		"/shop/..%5c..":    true,
	} {
		require.Equal(t, want, isCounted(h, get(target)), target)
	}
}

// TestPattern: paths that fit one pattern are one key, whichever way they are written.
func TestPattern(t *testing.T) {
	paths := options{"paths": []any{"/users/{id}", "/users/me", "/files/{rest...}"}}
	same := func(one, other string) bool {
		h := limited(t, limits(window(1, "key", "pattern", "match", paths)))
		require.Equal(t, 200, send(h, get(one)).StatusCode)
		return send(h, get(other)).StatusCode == http.StatusTooManyRequests
	}
	require.True(t, same("/users/1", "/users/2"))
	require.True(t, same("/users/1", "/users//2"))
	require.True(t, same("/files/a", "/files/b/c"))
	require.False(t, same("/users/1", "/users/me"))
	require.False(t, same("/users/1", "/files/a"))
}

func TestMatchHeaders(t *testing.T) {
	h := matching(t, options{"headers": []any{options{"name": "x-plan", "value": "gold"}, options{"name": "X-Any"}}})
	for _, row := range []struct {
		headers []string
		want    bool
	}{
		{nil, false},
		{[]string{"X-Plan", "gold"}, true},
		{[]string{"x-pLAN", "gold"}, true},
		{[]string{"X-Plan", "Gold"}, false},
		{[]string{"X-Plan", "golden"}, false},
		{[]string{"X-Plan", ""}, false},
		{[]string{"X-Plan", "free", "X-Plan", "gold"}, true},
		{[]string{"X-Any", "whatever"}, true},
		{[]string{"X-Any", ""}, true},
	} {
		require.Equal(t, row.want, isCounted(h, get("/", row.headers...)), row.headers)
	}
}

// TestMatchAll: all kinds of condition that are given must fit.
func TestMatchAll(t *testing.T) {
	h := matching(t, options{"methods": "POST", "hosts": "example.com", "paths": "/login", "headers": options{"name": "X-Plan"}})
	require.True(t, isCounted(h, post("/login", "", "X-Plan", "gold")))
	require.False(t, isCounted(h, get("/login", "X-Plan", "gold")))
	require.False(t, isCounted(h, post("http://example.org/login", "", "X-Plan", "gold")))
	require.False(t, isCounted(h, post("/logout", "", "X-Plan", "gold")))
	require.False(t, isCounted(h, post("/login", "")))
}

// TestOnlyMatchingLimits: each limit counts its own requests, and a request that none is for has no headers.
func TestOnlyMatchingLimits(t *testing.T) {
	h := limited(t, limits(
		window(5, "name", "all", "match", options{"hosts": "example.com"}),
		window(1, "name", "login", "match", options{"paths": "/login"}),
	))
	require.Equal(t, "4", send(h, get("/")).Header.Get("X-Ratelimit-Remaining"))
	require.Equal(t, "0", send(h, get("/login")).Header.Get("X-Ratelimit-Remaining"))
	require.Equal(t, 429, send(h, get("/login")).StatusCode)
	require.Equal(t, "2", send(h, get("/")).Header.Get("X-Ratelimit-Remaining"), "the refused one is not charged to all")
	require.Equal(t, 200, send(h, get("http://example.org/")).StatusCode)
	require.False(t, isCounted(h, get("http://example.org/")))
}

func TestExempt(t *testing.T) {
	h := limited(t, options{"average": 1000, "exempt": options{
		"ips":     "10.0.0.0/8, 2001:db8::/32, 198.51.100.7, ::ffff:203.0.113.0/120",
		"paths":   []any{"/healthz", "/assets/", "/api/{version}/status"},
		"methods": []any{"head"},
		"headers": []any{options{"name": "X-Internal", "value": "s3cret"}},
	}})
	for _, row := range []struct {
		req  *http.Request
		want bool
	}{
		{get("/"), false},
		{from("10.1.2.3:1", get("/")), true},
		{from("[::ffff:10.1.2.3]:1", get("/")), true},
		{from("11.1.2.3:1", get("/")), false},
		{from("[2001:db8:1::1]:1", get("/")), true},
		{from("[2001:db9::1]:1", get("/")), false},
		{from("198.51.100.7:1", get("/")), true},
		{from("198.51.100.8:1", get("/")), false},
		{from("203.0.113.9:1", get("/")), true},
		{from("203.0.114.9:1", get("/")), false},
		{from("@", get("/")), false},
		{get("/healthz"), true},
		{get("/healthz?x=1"), true},
		{get("/healthz/more"), false},
		{get("/assets/a/b.js"), true},
		{get("/api/v1/status"), true},
		{get("/api/v1/status/x"), false},
		{ask("HEAD", "/", ""), true},
		{ask("head", "/", ""), false},
		{ask("POST", "/", ""), false},
		{get("/", "X-Internal", "s3cret"), true},
		{get("/", "X-Internal", "S3cret"), false},
		{get("/", "X-Internal", ""), false},
		{get("/", "X-Internal", "no", "X-Internal", "s3cret"), true},
		{get("/", "X-Forwarded-For", "10.1.2.3"), false}, // anybody can write that
	} {
		require.Equal(t, !row.want, isCounted(h, row.req), "%s %s %s %v", row.req.Method, row.req.URL, row.req.RemoteAddr, row.req.Header)
	}
}

// TestExemptTakesTheClientAddress, not the proxy's, where there is a strategy.
func TestExemptTakesTheClientAddress(t *testing.T) {
	h := limited(t, options{"average": 1000, "exempt": options{"ips": "10.0.0.0/8"}, "ipStrategy": options{"depth": 1}})
	require.False(t, isCounted(h, get("/", "X-Forwarded-For", "10.1.2.3")))
	require.True(t, isCounted(h, get("/", "X-Forwarded-For", "10.1.2.3, 192.0.2.9")))
	require.True(t, isCounted(h, from("10.1.2.3:1", get("/", "X-Forwarded-For", "192.0.2.9"))))
}

// TestExemptPathsInOtherSpellings: what a service may take for another path is not exempt.
func TestExemptPathsInOtherSpellings(t *testing.T) {
	h := limited(t, options{"average": 1000, "exempt": options{"paths": []any{"/healthz", "/assets/", "/a%20b"}}})
	require.False(t, isCounted(h, get("/assets/x")))
	for _, target := range []string{
		"/%68ealthz", "//healthz", "/./healthz", "/x/../healthz", "/healthz%00", "/healthz%20", "/healthz/.", "/healthz//",
		"/assets/../admin", "/assets/..%2Fadmin", "/assets/%2e%2e/admin", "/assets%2Fx", "/assets//x", "/assets/./x", "/assets/x/..",
		"/assets/..%5Cadmin", `/assets/..\admin`, "/assets/%2525", "/a%20b",
	} {
		require.True(t, isCounted(h, get(target)), target)
	}
}

// TestPreflight: CORS preflight requests are exempt by default, and are only those.
func TestPreflight(t *testing.T) {
	origin := []string{"Origin", "https://app.example", "Access-Control-Request-Method", "PUT"}
	for name, o := range map[string]options{
		"one bucket": {"average": 1000},
		"limits":     limits(window(1000)),
	} {
		h := limited(t, o)
		for i := 0; i < 2; i++ { // the second request of a connection may go another way
			require.False(t, isCounted(h, ask("OPTIONS", "/", "", origin...)), name)
			require.True(t, isCounted(h, ask("OPTIONS", "/", "")), name)
			require.True(t, isCounted(h, ask("OPTIONS", "/", "", origin[:2]...)), name)
			require.True(t, isCounted(h, ask("OPTIONS", "/", "", origin[2:]...)), name)
			require.True(t, isCounted(h, ask("PUT", "/", "", origin...)), name)
		}
		counted := limited(t, with(o, "exempt", options{"preflight": false}))
		require.True(t, isCounted(counted, ask("OPTIONS", "/", "", origin...)), name)
	}
}

func TestMatchMistakes(t *testing.T) {
	match := func(o options) options { return limits(window(1, "match", o)) }
	exempt := func(o options) options { return options{"average": 1, "exempt": o} }
	for _, row := range []struct {
		options options
		want    string
	}{
		{match(options{"methods": " , "}), `limits[0].match is empty; write methods, hosts, paths or headers, or leave it out to match every request`},
		{match(options{"path": "/a"}), `limits[0].match.path: there is no such option; did you mean paths?`},
		{match(options{"hosts": "https://example.com"}), `limits[0].match.hosts: "https://example.com" is not a host name; write one such as api.example.com or *.example.com`},
		{match(options{"hosts": "a.*.com"}), `limits[0].match.hosts: "a.*.com" is not a host name; write one such as api.example.com or *.example.com`},
		{match(options{"paths": "users"}), `limits[0].match.paths: "users" is not a path pattern; write one that begins with /, such as /users/{id} or /files/`},
		{match(options{"paths": "/a?b=c"}), `limits[0].match.paths: "/a?b=c" is not a path pattern; write one that begins with /, such as /users/{id} or /files/`},
		{match(options{"headers": options{"value": "gold"}}), `limits[0].match.headers[0].name: "" is not the name of a header; write one such as X-Plan`},
		{match(options{"headers": options{"name": "X-Plan", "value": "a\nb"}}), `limits[0].match.headers[0].value: "a\nb" has a line break; write one line`},
		{exempt(options{"ips": "10.0.0.0/33"}), `exempt.ips: "10.0.0.0/33" is neither an address nor a CIDR; write an address such as 192.0.2.1 or a range such as 10.0.0.0/8`},
		{exempt(options{"preflight": "maybe"}), `exempt.preflight: "maybe" is neither true nor false; write true or false`},
		{exempt(options{"headers": options{"name": "X-Internal"}}), `exempt.headers[0].value is missing; write the value of X-Internal`},
		{limits(window(1, "key", "pattern")), `limits[0].key: "pattern" needs patterns to choose from; write limits[0].match.paths, or take path instead`},
	} {
		require.Equal(t, "sluice: "+row.want, mistake(t, row.options))
	}
	for _, o := range []options{match(options{"paths": "/a/{id"}), match(options{"paths": []any{"/{a}/x", "/x/{b}"}})} {
		text := mistake(t, o)
		require.Regexp(t, `^sluice: limits\[0\]\.match\.paths: "/.*" is not a path pattern that can stand here \(.*\); write `, text)
		require.NotContains(t, text, ".go:", "where the library noticed tells an operator nothing")
	}
	require.NotNil(t, matching(t, options{"paths": []any{"/a", "/a"}}), "twice the same is harmless")
}
