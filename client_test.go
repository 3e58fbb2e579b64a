package sluice_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the handler tests of match_test.go and after have in common.

// ask is a request as the server reads it, from alice's address, with headers as alternating names and values. A body
// is sent with its length.
func ask(method, target, body string, headers ...string) *http.Request {
	if target[0] == '/' {
		target = "http://example.com" + target
	}
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	if body == "" {
		req.Body = http.NoBody
	}
	req.RemoteAddr = alice
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return req
}

func get(target string, headers ...string) *http.Request {
	return ask(http.MethodGet, target, "", headers...)
}

func post(target, body string, headers ...string) *http.Request {
	return ask(http.MethodPost, target, body, headers...)
}

// from gives a request another peer.
func from(peer string, req *http.Request) *http.Request {
	req.RemoteAddr = peer
	return req
}

// window is a limit of so many requests in a window that no test outlives, with more options as alternating names and
// values.
func window(requests int, more ...any) options {
	o := options{"requests": requests, "window": "24h"}
	for i := 0; i < len(more); i += 2 {
		o[more[i].(string)] = more[i+1]
	}
	return o
}

// limits is a middleware with these limits.
func limits(all ...options) options {
	var list []any
	for _, one := range all {
		list = append(list, one)
	}
	return options{"limits": list}
}

// with is o and more options, as alternating names and values.
func with(o options, more ...any) options {
	all := options{}
	for name, value := range o {
		all[name] = value
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i].(string)] = more[i+1]
	}
	return all
}

// isCounted says whether some limit is for a request: only then are there rate-limit headers.
func isCounted(h http.Handler, req *http.Request) bool {
	return send(h, req).Header["X-Ratelimit-Limit"] != nil
}

// share says whether two requests count as one client's under a limit by key.
func share(t *testing.T, key any, one, other *http.Request) bool {
	t.Helper()
	h := limited(t, limits(window(1, "key", key, "onMissingKey", "skip")))
	require.Equal(t, http.StatusOK, send(h, one).StatusCode)
	return send(h, other).StatusCode == http.StatusTooManyRequests
}

var seconds = regexp.MustCompile(`t=\d+`)

// timeless is a RateLimit field without the seconds in it, which a slow test cannot foresee.
func timeless(field string) string { return seconds.ReplaceAllString(field, "t=T") }

// mistake is the error about options that New refuses.
func mistake(t *testing.T, o options) string {
	t.Helper()
	h, err := build(o, service, fresh(t))
	require.Error(t, err, o)
	require.Nil(t, h)
	return err.Error()
}

// requireKey checks the value that a request has for a key; "" for none. An override of that value, with numbers of
// its own, shows it.
func requireKey(t *testing.T, key any, value string, req *http.Request, about ...any) {
	t.Helper()
	o := window(1000, "key", key, "onMissingKey", "skip")
	if value != "" {
		o["overrides"] = options{"key": []any{value}, "requests": 77}
	}
	response := send(limited(t, limits(o)), req)
	require.Equal(t, http.StatusOK, response.StatusCode, about...)
	want := map[bool]string{true: "77", false: ""}[value != ""]
	require.Equal(t, want, response.Header.Get("X-Ratelimit-Limit"), about...)
}
