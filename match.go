package sluice

import (
	"crypto/subtle"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// Which requests a limit is for, and which are exempt from all limits.

// matcher is the conditions of a `match`: every kind that is given must fit, and of one kind any.
type matcher struct {
	methods map[string]bool
	hosts   []string // in lower case; "*.example.com" is every host below example.com
	paths   *http.ServeMux
	headers []headerMatch
}

type headerMatch struct {
	name  string // in canonical form
	value string // "" is any value
}

// matches says whether a request fits m; a nil m fits every one. It leaves in v.pattern the path pattern that fitted.
func matches(v *visit, m *matcher) bool {
	if m == nil {
		return true
	}
	if m.methods != nil && !m.methods[strings.ToUpper(v.req.Method)] { // as some services read it
		return false
	}
	if m.hosts != nil && !hostMatches(m.hosts, hostName(v.req.Host)) {
		return false
	}
	if m.headers != nil && !headerMatches(m.headers, v.req.Header) {
		return false
	}
	if m.paths != nil {
		v.pattern = patternOf(m.paths, v.req.URL.Path)
		return v.pattern != ""
	}
	return true
}

// patternOf returns the pattern that a path fits, "" if none. The standard library's multiplexer looks it up; it
// serves nothing. It is given the decoded path alone, since a service may well take /a%2Fb for /a/b, and it takes
// /a//b and /a/../b for what they lead to: a limit is not to be escaped by another spelling.
func patternOf(patterns *http.ServeMux, decoded string) string {
	_, pattern := patterns.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: decoded}})
	return pattern
}

func hostMatches(hosts []string, host string) bool {
	for _, want := range hosts {
		if host == want || strings.HasPrefix(want, "*.") && strings.HasSuffix(host, want[1:]) {
			return true
		}
	}
	return false
}

// headerMatches compares in constant time: the value may be a secret that exempts.
func headerMatches(wanted []headerMatch, header http.Header) bool {
	for _, want := range wanted {
		values := header[want.name]
		if want.value == "" && len(values) > 0 {
			return true
		}
		for _, value := range values {
			if want.value != "" && subtle.ConstantTimeCompare([]byte(value), []byte(want.value)) == 1 {
				return true
			}
		}
	}
	return false
}

// exemption is which requests no limit is for: those that fit any of it.
type exemption struct {
	addresses []netip.Prefix
	methods   map[string]bool // in just this spelling
	matchers  []*matcher      // one a kind
	paths     *http.ServeMux
	preflight bool
}

// exempted says whether no limit is for a request.
func exempted(v *visit, e *exemption) bool {
	if e.preflight && isPreflight(v.req) {
		return true
	}
	if e.methods[v.req.Method] {
		return true
	}
	for _, m := range e.matchers {
		if matches(v, m) {
			return true
		}
	}
	if len(e.addresses) > 0 && containsAddress(e.addresses, clientAddress(v)) {
		return true
	}
	return e.paths != nil && isPlainPath(v.req.URL) && isBelow(v.req.URL.Path, patternOf(e.paths, v.req.URL.Path))
}

// isBelow says whether a path fits the pattern that was found for it as it is: /static also finds /static/, since the
// multiplexer would redirect there.
func isBelow(path, pattern string) bool {
	return pattern != "" && strings.Count(path, "/") >= strings.Count(pattern, "/")
}

// isPreflight recognizes the request with which a browser asks whether it may send another (Fetch standard,
// CORS-preflight request). It carries no credentials and does nothing, and a refused one breaks the page in a way
// that its author cannot see.
func isPreflight(req *http.Request) bool {
	return req.Method == http.MethodOptions && req.Header["Access-Control-Request-Method"] != nil && req.Header["Origin"] != nil
}

// isPlainPath is false for a path in another spelling than its simplest. Such a one is never exempt: the service
// behind may read it as a path that is not.
func isPlainPath(u *url.URL) bool {
	// Servlet containers take what follows a semicolon for a parameter, and /a/..;/b for /b.
	return cleanPath(u.Path) == u.Path && u.EscapedPath() == u.Path && !strings.Contains(u.Path, ";")
}

// cleanPath is a path in its simplest spelling: without the dots and double slashes that lead to the same place.
func cleanPath(spelt string) string {
	clean := path.Clean("/" + spelt)
	if strings.HasSuffix(spelt, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}
