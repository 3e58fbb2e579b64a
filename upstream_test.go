package sluice_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// The service's own rate-limit headers.

// talkative is a service that has rate-limit headers of its own, which Traefik's proxy adds to what is there.
func talkative(rw http.ResponseWriter, req *http.Request) {
	for _, name := range []string{"X-RateLimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "RateLimit", "RateLimit-Policy", "X-Other"} {
		rw.Header().Add(name, "upstream")
	}
	if req.URL.Path != "/implicit" {
		rw.WriteHeader(http.StatusCreated)
	}
	_, _ = io.WriteString(rw, "served")
	_, _ = io.WriteString(rw, " whole")
	rw.Header().Set("X-Ratelimit-Limit", "too late")
}

func TestUpstreamHeaders(t *testing.T) {
	both := func(o options) options { return with(o, "headers", "x-ratelimit, ietf") }
	for name, row := range map[string]struct {
		options options
		replace bool
	}{
		"default": {both(limits(window(1000))), false},
		"add":     {both(with(limits(window(1000)), "upstreamHeaders", "add")), false},
		"replace": {both(with(limits(window(1000)), "upstreamHeaders", "replace")), true},
	} {
		h, err := build(row.options, http.HandlerFunc(talkative), fresh(t))
		require.NoError(t, err)
		for _, path := range []string{"/", "/implicit"} {
			response := send(h, get(path))
			require.Equal(t, "served whole", bodyOf(t, response), name)
			require.Equal(t, map[bool]int{true: 200, false: 201}[path == "/implicit"], response.StatusCode)
			require.Equal(t, []string{"upstream"}, response.Header["X-Other"], name)
			for _, field := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit", "Ratelimit-Policy"} {
				lines := response.Header[field]
				require.NotEqual(t, "upstream", lines[0], "%s %s", name, field)
				if row.replace {
					require.Len(t, lines, 1, "%s %s %s", name, path, field)
				} else {
					require.Equal(t, []string{lines[0], "upstream"}, lines, "%s %s", name, field)
				}
			}
		}
	}
}

// TestReplaceAfterEarlyHints: an informational response is not the end of it.
func TestReplaceAfterEarlyHints(t *testing.T) {
	next := func(rw http.ResponseWriter, req *http.Request) {
		rw.WriteHeader(http.StatusEarlyHints)
		talkative(rw, req)
	}
	h, err := build(with(limits(window(1000)), "upstreamHeaders", "replace"), http.HandlerFunc(next), fresh(t))
	require.NoError(t, err)
	server := httptest.NewServer(h)
	defer server.Close()
	response, err := http.Get(server.URL)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusCreated, response.StatusCode)
	require.Equal(t, []string{"1000"}, response.Header["X-Ratelimit-Limit"])
	require.Equal(t, "served whole", bodyOf(t, response))
}

// TestUpstreamHeadersWithoutOurs: fields that this middleware does not send are the service's own business.
func TestUpstreamHeadersWithoutOurs(t *testing.T) {
	for name, o := range map[string]options{
		"none":       with(limits(window(1000)), "headers", "none"),
		"no limit":   limits(window(1000, "match", options{"paths": "/other"})),
		"exempt":     with(limits(window(1000)), "exempt", options{"ips": "0.0.0.0/0"}),
		"in dry run": with(limits(window(1000)), "dryRun", true),
	} {
		h, err := build(with(o, "upstreamHeaders", "replace"), http.HandlerFunc(talkative), fresh(t))
		require.NoError(t, err)
		require.Equal(t, []string{"upstream"}, send(h, get("/")).Header["X-Ratelimit-Limit"], name)
	}
	ietf, err := build(with(limits(window(1000)), "upstreamHeaders", "replace", "headers", "ietf"), http.HandlerFunc(talkative), fresh(t))
	require.NoError(t, err)
	require.Equal(t, []string{"upstream"}, send(ietf, get("/")).Header["X-Ratelimit-Limit"])
}

// TestReplaceSharesNothing: one response's fields are never another's, although they share their values.
func TestReplaceSharesNothing(t *testing.T) {
	h, err := build(with(limits(window(1000)), "upstreamHeaders", "replace"), http.HandlerFunc(talkative), fresh(t))
	require.NoError(t, err)
	for _, want := range []string{"999", "998", "997"} {
		header := send(h, get("/")).Header
		require.Equal(t, []string{want}, header["X-Ratelimit-Remaining"])
		require.Equal(t, []string{"1000"}, header["X-Ratelimit-Limit"])
	}
}

// TestStreamsAreNotWrapped: flushing and taking over the connection need the server's own writer.
func TestStreamsAreNotWrapped(t *testing.T) {
	var got http.ResponseWriter
	next := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { got = rw })
	h, err := build(with(limits(window(1000)), "upstreamHeaders", "replace"), next, fresh(t))
	require.NoError(t, err)
	for _, row := range []struct {
		req    *http.Request
		stream bool
	}{
		{get("/"), false},
		{get("/", "Accept", "text/html"), false},
		{get("/", "Accept", "text/event-stream"), true},
		{get("/", "Accept", "Text/Event-Stream, */*;q=0.1"), true},
		{get("/", "Accept", "text/html", "Accept", "text/event-stream"), true},
		{get("/", "Upgrade", "websocket", "Connection", "Upgrade"), true},
		{post("/", "", "Content-Type", "application/grpc+proto"), true},
		{post("/", "", "Content-Type", "application/json"), false},
		{ask("CONNECT", "/", ""), true},
	} {
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, row.req)
		require.Equal(t, row.stream, got == http.ResponseWriter(recorder), "%s %v", row.req.Method, row.req.Header)
	}
}
