package sluice_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Refusals.

// refusing is a middleware that refuses alice everything, with more options as alternating names and values.
func refusing(t *testing.T, more ...any) http.Handler {
	t.Helper()
	h := limited(t, with(limits(window(1, "name", "per-ip")), more...))
	require.Equal(t, 200, send(h, get("/")).StatusCode)
	return h
}

func bodyOf(t *testing.T, response *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// TestAccept: the type of a refusal's body is the one that the client likes best of three, and problem details when
// in doubt.
func TestAccept(t *testing.T) {
	const problem, plain, page = "application/problem+json", "text/plain; charset=utf-8", "text/html; charset=utf-8"
	h := refusing(t)
	for _, row := range []struct{ accept, want string }{
		{"", problem},
		{"*/*", problem},
		{"application/json", problem},
		{"application/problem+json", problem},
		{"application/*", problem},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8", page}, // Chrome
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", page},                                  // Firefox
		{"application/json, text/plain, */*", problem},                                                             // axios
		{"text/html", page},
		{"TEXT/HTML", page},
		{" text/html ; charset=utf-8 ", page},
		{"text/plain", plain},
		{"text/*", page},
		{"text/*;q=0.5, text/plain", plain},
		{"text/plain, text/html;q=0.5", plain},
		{"text/html;q=0.5, text/plain;q=0.50", page},
		{"text/html;q=0.5, application/json;q=0.6", problem},
		{"text/html;q=0.6, application/json;q=0.5", page},
		{"text/html, application/json", problem},
		{"text/html;q=0, */*", problem},
		{"text/plain, application/problem+json;q=0.1", plain},
		{"*/*, application/json;q=0", page}, // the most specific range counts
		{"text/html;level=1;q=0.3, text/plain;q=0.2", page},
		{"text/html;Q=1", page},
		// What is no sensible range is not heeded.
		{"text/html;q=2", problem},
		{"text/html;q=-1", problem},
		{"text/html;q=", problem},
		{"text/html;q=NaN", problem},
		{"text/html;q=Inf", problem},
		{"text/html;q=abc, text/plain;q=0.1", plain},
		{"image/png", problem},
		{"html", problem},
		{"text/", problem},
		{"text/htmlx", problem},
		{",;,;=;q", problem},
		{"\x00\xff", problem},
		{"text/html" + strings.Repeat(" ", 2000), problem},
		{strings.Repeat("text/html,", 200_000), problem},
	} {
		response := send(h, get("/", "Accept", row.accept))
		require.Equal(t, 429, response.StatusCode)
		require.Equal(t, []string{row.want}, response.Header["Content-Type"], "%.100q", row.accept)
		body := bodyOf(t, response)
		require.Contains(t, body, "Try again in "+response.Header.Get("Retry-After")+" s.")
		switch row.want {
		case problem:
			require.True(t, json.Valid([]byte(body)))
		case page:
			require.True(t, strings.HasPrefix(body, "<!doctype html>"))
		case plain:
			require.NotContains(t, body, "<")
		}
	}
	two := send(h, get("/", "Accept", "text/plain;q=0.5", "Accept", "text/html"))
	require.Equal(t, page, two.Header.Get("Content-Type"), "two lines are one list")
	require.Equal(t, problem, send(h, get("/")).Header.Get("Content-Type"))
}

func TestProblemNamesAllViolatedPolicies(t *testing.T) {
	h := limited(t, limits(window(1, "name", "one"), window(2, "name", "two"), window(1, "name", "three"), window(1, "name", "tried", "dryRun", true)))
	send(h, get("/"))
	var problem struct {
		Violated []string `json:"violated-policies"`
	}
	require.NoError(t, json.Unmarshal([]byte(bodyOf(t, send(h, get("/")))), &problem))
	require.Equal(t, []string{"one", "three"}, problem.Violated)
}

func TestRefusedHEAD(t *testing.T) {
	for name, h := range map[string]http.Handler{"standard": refusing(t), "own": refusing(t, "reject", options{"body": "own"})} {
		for _, accept := range []string{"", "text/html", "text/plain"} {
			got := send(h, ask("HEAD", "/", "", "Accept", accept))
			want := send(h, get("/", "Accept", accept))
			require.Equal(t, want.StatusCode, got.StatusCode, name)
			require.Equal(t, want.Header, got.Header, "%s: all but the body is as for GET", name)
			require.Empty(t, bodyOf(t, got), name)
			require.NotEmpty(t, bodyOf(t, want), name)
		}
	}
}

// TestRefusedGRPC: a trailers-only response, whatever the operator wants of other refusals. grpc-web is another
// protocol.
func TestRefusedGRPC(t *testing.T) {
	h := refusing(t, "reject", options{"statusCode": 503, "body": "own", "headers": options{"name": "X-Extra", "value": "{policy}"}})
	for kind, grpc := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "application/grpc;charset=utf-8": true,
		"application/grpc-web": false, "application/grpc-web+proto": false, "application/grpc-web-text": false, "application/json": false, "": false,
	} {
		response := send(h, post("/", "", "Content-Type", kind, "Accept", "text/html"))
		body := bodyOf(t, response)
		if !grpc {
			require.Equal(t, 503, response.StatusCode, kind)
			require.Equal(t, "own", body, kind)
			require.Empty(t, response.Header.Get("Grpc-Status"), kind)
			continue
		}
		require.Equal(t, 200, response.StatusCode, kind)
		require.Empty(t, body, kind)
		after := response.Header.Get("Retry-After")
		require.Regexp(t, `^86(400|399|3\d\d)$`, after)
		require.Equal(t, []string{"application/grpc"}, response.Header["Content-Type"], kind)
		require.Equal(t, []string{"8"}, response.Header["Grpc-Status"], "RESOURCE_EXHAUSTED")
		require.Equal(t, []string{"Too%20many%20requests.%20Try%20again%20in%20" + after + "%20s."}, response.Header["Grpc-Message"])
		require.Equal(t, []string{after + "000"}, response.Header["Grpc-Retry-Pushback-Ms"])
		require.Equal(t, "per-ip", response.Header.Get("X-Extra"))
		require.Equal(t, "0", response.Header.Get("X-Ratelimit-Remaining"))
	}
}

// TestPlaceholders are filled in with what the header fields say; everything else stays as it is written.
func TestPlaceholders(t *testing.T) {
	const all = `limit={limit} remaining={remaining} reset={reset} retry={retryAfter} policy={policy}`
	h := refusing(t, "reject", options{"body": all + ` {other} {{limit}} {Limit} <>&"`, "headers": []any{
		options{"name": "x-info", "value": all},
	}})
	response := send(h, get("/?limit={policy}", "X-Evil", "{limit}"))
	header := response.Header
	want := "limit=1 remaining=0 reset=" + header.Get("X-Ratelimit-Reset") + " retry=" + header.Get("Retry-After") + " policy=per-ip"
	require.Equal(t, want+` {other} {1} {Limit} <>&"`, bodyOf(t, response))
	require.Equal(t, []string{want}, header["X-Info"])
	require.Equal(t, "text/plain; charset=utf-8", header.Get("Content-Type"))
}

// TestRejectContentType: a body has the type that is given, or one by its beginning; a type alone chooses one of the
// standard bodies.
func TestRejectContentType(t *testing.T) {
	for _, row := range []struct {
		reject options
		want   string
	}{
		{options{"body": `{"error":"slow down"}`}, "application/json"},
		{options{"body": "\n [1]"}, "application/json"},
		{options{"body": "<p>Slow down"}, "text/html; charset=utf-8"},
		{options{"body": "Slow down"}, "text/plain; charset=utf-8"},
		{options{"body": "<x/>", "contentType": "application/xml"}, "application/xml"},
		{options{"contentType": "text/html"}, "text/html; charset=utf-8"},
		{options{"contentType": " text/plain "}, "text/plain; charset=utf-8"},
		{options{"contentType": "application/problem+json"}, "application/problem+json"},
	} {
		response := send(refusing(t, "reject", row.reject), get("/", "Accept", "image/png"))
		require.Equal(t, []string{row.want}, response.Header["Content-Type"], row.reject)
	}
}

// TestRejectStatus is also that of the problem document, and of nothing that is let through.
func TestRejectStatus(t *testing.T) {
	for _, status := range []any{400, "403", 429, "0503", 599} {
		response := send(refusing(t, "reject", options{"statusCode": status}), get("/"))
		var problem struct{ Status int }
		require.NoError(t, json.Unmarshal([]byte(bodyOf(t, response)), &problem))
		require.Equal(t, response.StatusCode, problem.Status)
		require.NotEmpty(t, response.Header.Get("Retry-After"))
	}
}

// TestJitter lengthens Retry-After by whole seconds at random, and never shortens it.
func TestJitter(t *testing.T) {
	h := limited(t, with(limits(window(1, "window", "10h")), "reject", options{"jitter": "3s"}))
	require.Equal(t, 200, send(h, get("/")).StatusCode)
	seen := map[int64]int{}
	for i := 0; i < 200; i++ {
		header := send(h, get("/")).Header
		after, err := strconv.ParseInt(header.Get("Retry-After"), 10, 64)
		require.NoError(t, err)
		seen[after-after/10*10]++
		require.LessOrEqual(t, after, int64(36000+3))
		require.GreaterOrEqual(t, after, int64(36000-60))
	}
	require.GreaterOrEqual(t, len(seen), 4, "all of 0 to 3 s: %v", seen)
	require.Empty(t, send(h, from(bob, get("/"))).Header.Get("Retry-After"))
}

// TestRefusalsEchoNothing: nothing of a request is in its refusal, escaped or not.
func TestRefusalsEchoNothing(t *testing.T) {
	const evil = `<script>"{limit}'&`
	h := limited(t, limits(window(1, "key", "header:X-Key")))
	for i := 0; i < 2; i++ {
		for _, accept := range []string{"text/html", "text/plain", "application/json", evil} {
			req := get("/%3Cscript%3E?q=%3Cscript%3E", "X-Key", evil, "User-Agent", evil, "Referer", evil, "Accept", accept, "Origin", evil)
			req.Host = evil
			response := send(h, req)
			require.NotContains(t, bodyOf(t, response), "script")
			for name, values := range response.Header {
				require.NotContains(t, name+strings.Join(values, ""), "script")
			}
		}
	}
}

func TestRejectMistakes(t *testing.T) {
	for _, row := range []struct {
		reject options
		want   string
	}{
		{options{"statusCode": "many"}, `reject.statusCode: "many" is not a number; write a whole number, such as 429`},
		{options{"statusCode": 200}, `reject.statusCode: "200" is not the status of an error; write 400 to 599, such as 429 or 503`},
		{options{"statusCode": 600}, `reject.statusCode: "600" is not the status of an error; write 400 to 599, such as 429 or 503`},
		{options{"statusCode": 429.5}, `reject.statusCode: "429.5" must be a whole number; write a whole number, such as 429`},
		{options{"statuscode-": 429}, `reject.statuscode-: there is no such option; did you mean statusCode?`},
		{options{"contentType": "application/xml"}, `reject.contentType: "application/xml" has no body of its own; write reject.body too, or application/problem+json, text/plain or text/html`},
		{options{"contentType": "a\r\nb", "body": "x"}, `reject.contentType: "a\r\nb" has a line break; write one line`},
		{options{"headers": options{"name": "X-A"}}, `reject.headers[0].value is missing; write the value of X-A`},
		{options{"headers": options{"name": "X A", "value": "b"}}, `reject.headers[0].name: "X A" is not the name of a header; write one such as X-Plan`},
		{options{"headers": options{"name": "X-A", "value": "b\n"}}, `reject.headers[0].value: "b\n" has a line break; write one line`},
		{options{"jitter": "soon"}, `reject.jitter: "soon" is not a duration; write a duration, such as 10s, 1m30s or 24h`},
		{options{"jitter": "500ms"}, `reject.jitter: "500ms" is less than Retry-After can tell; write whole seconds, such as 5s`},
	} {
		require.Equal(t, "sluice: "+row.want, mistake(t, options{"average": 1, "reject": row.reject}))
	}
}
