package sluice

import (
	"fmt"
	"net/http"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
)

// The conditions of a match, from options. As config.go, this runs in New only.

// compileMatch reads the conditions found at path; nil for none.
func compileMatch(c *MatchConfig, path string) (*matcher, error) {
	if c == nil {
		return nil, nil
	}
	m := &matcher{}
	for _, method := range list(c.Methods) {
		if m.methods == nil {
			m.methods = map[string]bool{}
		}
		m.methods[strings.ToUpper(method)] = true
	}
	for _, host := range list(c.Hosts) {
		if strings.ContainsAny(host, "/: ") || strings.Contains(strings.TrimPrefix(host, "*."), "*") {
			return nil, bad(path+".hosts", host, "is not a host name", "one such as api.example.com or *.example.com")
		}
		m.hosts = append(m.hosts, hostName(host))
	}
	var err error
	if m.paths, err = compilePaths(c.Paths, path+".paths"); err != nil {
		return nil, err
	}
	if m.headers, err = compileHeaderMatches(c.Headers, path+".headers", false); err != nil {
		return nil, err
	}
	if m.methods == nil && m.hosts == nil && m.paths == nil && m.headers == nil {
		return nil, fmt.Errorf("sluice: %s is empty; write methods, hosts, paths or headers, or leave it out to match every request", path)
	}
	return m, nil
}

// compilePaths makes a multiplexer of path patterns, which serves nothing; nil for none. The multiplexer panics over
// patterns that it cannot take.
func compilePaths(paths []string, path string) (mux *http.ServeMux, err error) {
	patterns := list(paths)
	if len(patterns) == 0 {
		return nil, nil
	}
	mux = http.NewServeMux()
	for i, pattern := range patterns {
		if pattern[0] != '/' || strings.ContainsAny(pattern, " ?#") {
			return nil, bad(path, pattern, "is not a path pattern", "one that begins with /, such as /users/{id} or /files/")
		}
		if duplicate(patterns[:i], pattern) {
			continue
		}
		if problem := register(mux, pattern); problem != "" {
			return nil, bad(path, pattern, "is not a path pattern that can stand here ("+problem+")", "patterns of which each is more specific than the others where they overlap, or two limits")
		}
	}
	return mux, nil
}

func register(mux *http.ServeMux, pattern string) (problem string) {
	defer func() {
		if r := recover(); r != nil {
			problem = registeredAt.ReplaceAllString(strings.ReplaceAll(fmt.Sprint(r), "\n", " "), "")
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return ""
}

// registeredAt is where the multiplexer thinks that a pattern comes from, which tells an operator nothing.
var registeredAt = regexp.MustCompile(` \(registered at [^)]*\)`)

func duplicate(items []string, item string) bool {
	for _, other := range items {
		if other == item {
			return true
		}
	}
	return false
}

// compileHeaderMatches reads header fields; needValue if a name alone is not enough.
func compileHeaderMatches(headers []HeaderConfig, path string, needValue bool) ([]headerMatch, error) {
	var matches []headerMatch
	for i, h := range headers {
		at := path + "[" + strconv.Itoa(i) + "]"
		name := textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(h.Name))
		if name == "" || strings.Trim(name, headerLetters) != "" {
			return nil, bad(at+".name", h.Name, "is not the name of a header", "one such as X-Plan")
		}
		if name == "Host" {
			return nil, bad(at+".name", h.Name, "is not found among the headers", "hosts of a match")
		}
		if needValue && h.Value == "" {
			return nil, fmt.Errorf("sluice: %s.value is missing; write the value of %s", at, name)
		}
		if strings.ContainsAny(h.Value, "\r\n") {
			return nil, bad(at+".value", h.Value, "has a line break", "one line")
		}
		matches = append(matches, headerMatch{name: name, value: h.Value})
	}
	return matches, nil
}
