package sluice_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Requests that say one thing to the limiter and another to the service behind it. Whoever may choose what is
// counted, and still gets what he wants, has no limit. What is ambiguous counts as missing.

// TestPathsInOtherSpellings: a path as a key is what it leads to.
func TestPathsInOtherSpellings(t *testing.T) {
	for _, other := range []string{"//login", "/./login", "/x/../login", "/x%2F..%2Flogin", "/%2e/login", "/login/.", "/x/..//login"} {
		require.True(t, share(t, "path", get("/login"), get(other)), other)
	}
	for _, other := range []string{"/", "/login/", "/Login", "/login/x", "/x"} {
		require.False(t, share(t, "path", get("/login"), get(other)), other)
	}
}

// TestPatternWithoutFinalSlash: /users/1 fits /users/{id}/, as ServeMux has it, and is the same key.
func TestPatternWithoutFinalSlash(t *testing.T) {
	h := limited(t, limits(window(1, "key", "pattern", "match", options{"paths": "/users/{id}/"})))
	require.Equal(t, 200, send(h, get("/users/1")).StatusCode)
	for _, path := range []string{"/users/2", "/users/3/", "/users/4/x", "//users/5"} {
		require.Equal(t, 429, send(h, get(path)).StatusCode, path)
	}
}

// TestExemptPathParameters: Java servers cut ";..." off each segment, so that /assets/..;/admin is /admin.
func TestExemptPathParameters(t *testing.T) {
	h := limited(t, options{"average": 1000, "exempt": options{"paths": []any{"/assets/", "/api/{version}/status"}}})
	for _, path := range []string{"/assets/..;/admin", "/assets/..;x=y/admin", "/api/..;/status", "/assets/;/../admin", "/assets/%3B/x", "/assets/.;/x"} {
		require.True(t, isCounted(h, get(path)), path)
	}
}

// TestBodyOfTwoMeanings is JSON and a form at once, or has a field in two places.
func TestBodyOfTwoMeanings(t *testing.T) {
	part := "--b\r\nContent-Disposition: form-data; name=\"user.email\"\r\n\r\nvictim\r\n--b--\r\n"
	for _, row := range []struct{ kind, body, value string }{
		{formType, `{"user.email":"random"}&user.email=victim`, "victim"},
		{formType, `{"user.email":"random","x":"&user.email=victim&"}`, ""},
		{formType, `{"user.email":"victim","x":"&user.email=random&"}`, ""},
		{formType, `{"user.email":"same","x":"&user.email=same&"}`, ""},
		{formType, `{"user.email":"victim"}`, "victim"}, // a service may ignore the type
		{formType, `{"x":"&user.email=victim&"}`, "victim"},
		{"multipart/form-data; boundary=b", "{\"user.email\":\"random\"}\r\n" + part, "victim"},
		{"application/json", `{"user.email":"random"}{"user.email":"victim"}`, ""},
		{"application/json", `{"user.email":"random"} x`, ""},
		{"application/json", `{"user.email":"random","user":{"email":"victim"}}`, ""},
		{"application/json", `{"user.email":{},"user":{"email":"victim"}}`, ""},
		{"application/json", `{"user.email":"victim","user":{"mail":"x"}}`, "victim"},
		{"application/json", `{"user.email":"victim","user":"x"}`, "victim"},
	} {
		requireKey(t, "body:user.email", row.value, post("/", row.body, "Content-Type", row.kind), "%s as %s", row.body, row.kind)
	}
}

// TestNamesWithDots: a name in a path may have dots itself, as a claim that is a URL has.
func TestNamesWithDots(t *testing.T) {
	const claim = "https://example.com/app.roles.main"
	for claims, value := range map[string]string{
		`{"https://example.com/app":{"roles":{"main":"admin"}}}`:                                                "admin",
		`{"https://example.com/app.roles":{"main":"admin"}}`:                                                    "admin",
		`{"https://example.com/app":{"roles.main":"admin"}}`:                                                    "admin",
		`{"https://example":{"com/app":{"roles":{"main":"admin"}}}}`:                                            "admin",
		`{"https://example.com/app.roles.main":"admin"}`:                                                        "admin",
		`{"https://example.com/app.roles.main":"admin","https://example.com/app":{"roles":{"main":"another"}}}`: "",
		`{"https://example.com/app.roles":{"main":"admin"},"https://example.com/app":{"roles.main":"another"}}`: "",
		`{"https://example.com/app":{"roles":{}}}`:                                                              "",
	} {
		requireKey(t, "jwt:"+claim, value, get("/", "Authorization", "Bearer "+token(claims)), claims)
	}
}

// TestCookieTwice: parsers differ in what they make of spaces, commas and odd characters.
func TestCookieTwice(t *testing.T) {
	for _, cookie := range []string{
		"sid =random; sid=alice", "sid=alice; sid =random", "sid\t=random; sid=alice", "sid=\x01; sid=alice", "sid=alice; sid=\"",
		"sid=a\\b; sid=alice", "sid; sid=alice", "sid=; sid=alice", "sid=random, sid=alice",
	} {
		requireKey(t, "cookie:sid", "", get("/", "Cookie", cookie), "%q", cookie)
	}
	requireKey(t, "cookie:sid", "alice", get("/", "Cookie", "a=1, 2; sid=alice; b=x y"))
}

// TestQueryThatIsMalformed: what one parser drops, another takes.
func TestQueryThatIsMalformed(t *testing.T) {
	for _, query := range []string{"key=random&key=alice;", "key=random;key=alice", "key=random&x=%zz", "key=random&;key=alice"} {
		requireKey(t, "query:key", "", get("/?"+query), query)
	}
}

func TestBasicTwice(t *testing.T) {
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	requireKey(t, "basic", "", get("/", "Authorization", basic("random:x"), "Authorization", basic("alice:x")))
	requireKey(t, "basic", "", get("/", "Authorization", basic(":x")))
}

// TestLargeNumbers that no float holds are no less different.
func TestLargeNumbers(t *testing.T) {
	require.False(t, share(t, "body:id", post("/", `{"id":12345678901234567890}`), post("/", `{"id":12345678901234567891}`)))
	requireKey(t, "body:id", "12345678901234567890", post("/", `{"id":12345678901234567890}`))
}

// TestMethodsInLowerCase: a service may not mind.
func TestMethodsInLowerCase(t *testing.T) {
	h := limited(t, limits(window(1, "match", options{"methods": "POST"}, "key", []any{"method", "ip"})))
	require.Equal(t, 200, send(h, post("/", "")).StatusCode)
	for _, method := range []string{"post", "Post"} {
		require.Equal(t, http.StatusTooManyRequests, send(h, ask(method, "/", "")).StatusCode, method)
	}
}

// TestHeadersThatCannotBe are mistakes that would make a key always missing.
func TestHeadersThatCannotBe(t *testing.T) {
	for key, want := range map[string]string{
		"header:Host":   `sluice: limits[0].key: "header:Host" `,
		"header:X Key":  `sluice: limits[0].key: "header:X Key" `,
		"header:X-Key:": `sluice: limits[0].key: "header:X-Key:" `,
	} {
		require.True(t, strings.HasPrefix(mistake(t, limits(window(1, "key", []any{key}))), want), key)
	}
	text := mistake(t, limits(window(1, "match", options{"headers": options{"name": "host", "value": "a"}})))
	require.True(t, strings.HasPrefix(text, `sluice: limits[0].match.headers[0].name: "host" `), text)
}
