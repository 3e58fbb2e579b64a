package sluice

import (
	"encoding/base64"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// limitOf is a limit with this key, ready for keyOf.
func limitOf(t testing.TB, c *LimitConfig) *limit {
	t.Helper()
	l := &limit{}
	var err error
	l.match, err = compileMatch(c.Match, "match")
	require.NoError(t, err)
	require.NoError(t, compileKey(l, c, ""))
	return l
}

// keyFor is the key of a request under a limit with these parts.
func keyFor(t testing.TB, req *http.Request, parts ...string) (string, bool) {
	t.Helper()
	v := &visit{rules: &rules{client: clientStrategy{subnet: 64}}, req: req}
	key := keyOf(v, limitOf(t, &LimitConfig{Key: parts, OnMissingKey: "skip"}))
	return key, key != ""
}

func requestTo(target string, headers ...string) *http.Request {
	req := httptest.NewRequest(http.MethodGet, target, nil)
	req.RemoteAddr = "192.0.2.1:1"
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return req
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func bearer(claims string) string {
	return "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
}

// TestSameKey: which requests are counted together.
func TestSameKey(t *testing.T) {
	withBody := func(body, contentType string) *http.Request {
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		req.Header.Set("Content-Type", contentType)
		return req
	}
	withMethod := func(method string) *http.Request { return httptest.NewRequest(method, "/", nil) }
	for _, row := range []struct {
		part       string
		one, other *http.Request
		same       bool
	}{
		{"host", requestTo("http://example.com/"), requestTo("http://EXAMPLE.com.:8080/"), true},
		{"host", requestTo("http://example.com/"), requestTo("http://www.example.com/"), false},
		{"method", withMethod("GET"), withMethod("POST"), false},
		{"path", requestTo("/a?b=1"), requestTo("/a?b=2"), true},
		{"path", requestTo("/a%62"), requestTo("/ab"), true},
		{"path", requestTo("/a"), requestTo("/a/"), false},
		{"path", requestTo("/A"), requestTo("/a"), false},
		{"lower:path", requestTo("/A"), requestTo("/a"), true},
		{"header:x-api-key", requestTo("/", "X-Api-Key", "k"), requestTo("/", "x-API-key", "k"), true},
		{"header:x-api-key", requestTo("/", "X-Api-Key", "k"), requestTo("/", "X-Api-Key", "K"), false},
		{"lower:header:x-api-key", requestTo("/", "X-Api-Key", "k"), requestTo("/", "X-Api-Key", "K"), true},
		{"cookie:sid", requestTo("/", "Cookie", "sid=1"), requestTo("/", "Cookie", "a=b; sid=1; xsid=2"), true},
		{"cookie:sid", requestTo("/", "Cookie", "sid=1"), requestTo("/", "Cookie", "sid=2"), false},
		{"query:token", requestTo("/?token=a"), requestTo("/x?b=1&token=%61"), true},
		{"query:token", requestTo("/?token=a"), requestTo("/?token=b"), false},
		{"basic", requestTo("/", "Authorization", basic("joe", "1")), requestTo("/", "Authorization", basic("joe", "2")), true},
		{"basic", requestTo("/", "Authorization", basic("joe", "1")), requestTo("/", "Authorization", basic("jim", "1")), false},
		{"jwt:sub", requestTo("/", "Authorization", bearer(`{"sub":"a","iat":1}`)), requestTo("/", "Authorization", bearer(`{"iat":2,"sub":"a"}`)), true},
		{"jwt:sub", requestTo("/", "Authorization", bearer(`{"sub":"a"}`)), requestTo("/", "Authorization", bearer(`{"sub":"b"}`)), false},
		{"jwt:sub", requestTo("/", "Authorization", bearer(`{"sub":7}`)), requestTo("/", "Authorization", "bearer "+bearer(`{"sub":7.0}`)[7:]), true},
		{"body:user.email", withBody(`{"user":{"email":"a@b"}}`, "application/json"), withBody(` {"x":1,"user":{"email":"a@b"}}`, "text/plain"), true},
		{"body:email", withBody(`email=a%40b`, "application/x-www-form-urlencoded"), withBody(`x=1&email=a@b`, "application/x-www-form-urlencoded"), true},
		{"body:email", withBody(`email=a%40b`, "application/x-www-form-urlencoded"), withBody(`email=a@c`, "application/x-www-form-urlencoded"), false},
		{"global", requestTo("/a"), requestTo("/b"), true},
	} {
		one, ok := keyFor(t, row.one, row.part)
		require.True(t, ok, row.part)
		other, ok := keyFor(t, row.other, row.part)
		require.True(t, ok, row.part)
		require.Equal(t, row.same, one == other, "%s of %s %s and %s %s", row.part, row.one.Host, row.one.URL, row.other.Host, row.other.URL)
	}
}

// TestMissingKeys: a part that is not there, or is there twice.
func TestMissingKeys(t *testing.T) {
	for _, row := range []struct {
		part string
		req  *http.Request
	}{
		{"header:x-api-key", requestTo("/")},
		{"header:x-api-key", requestTo("/", "X-Api-Key", "")},
		{"header:x-api-key", requestTo("/", "X-Api-Key", "a", "X-Api-Key", "b")},
		{"cookie:sid", requestTo("/", "Cookie", "xsid=1")},
		{"cookie:sid", requestTo("/", "Cookie", "sid=")},
		{"cookie:sid", requestTo("/", "Cookie", "sid=1; sid=2")},
		{"cookie:sid", requestTo("/", "Cookie", "sid=1", "Cookie", "sid=1")},
		{"query:token", requestTo("/")},
		{"query:token", requestTo("/?token=")},
		{"query:token", requestTo("/?token=a&token=b")},
		{"basic", requestTo("/")},
		{"basic", requestTo("/", "Authorization", "Basic !!!")},
		{"basic", requestTo("/", "Authorization", bearer(`{"sub":"a"}`))},
		{"jwt:sub", requestTo("/")},
		{"jwt:sub", requestTo("/", "Authorization", "Bearer abc")},
		{"jwt:sub", requestTo("/", "Authorization", "Bearer a.b.c")},
		{"jwt:sub", requestTo("/", "Authorization", bearer(`{"sub":null}`))},
		{"jwt:sub", requestTo("/", "Authorization", bearer(`{"sub":{"a":1}}`))},
		{"jwt:sub", requestTo("/", "Authorization", bearer(`["sub"]`))},
		{"body:email", requestTo("/")},
	} {
		_, ok := keyFor(t, row.req, row.part)
		require.False(t, ok, "%s of %s %v", row.part, row.req.URL, row.req.Header)
		_, ok = keyFor(t, row.req, "method", row.part)
		require.False(t, ok, "method and %s of %s %v", row.part, row.req.URL, row.req.Header)
	}
}

// TestAnswersToMissingKeys: what onMissingKey makes of such a request. Its key is none that a request with all parts
// can have.
func TestAnswersToMissingKeys(t *testing.T) {
	key := func(answer, peer string, headers ...string) string {
		req := requestTo("/", headers...)
		req.RemoteAddr = peer
		v := &visit{rules: &rules{client: clientStrategy{subnet: 64}}, req: req}
		return keyOf(v, limitOf(t, &LimitConfig{Key: []string{"header:X"}, OnMissingKey: answer}))
	}
	byAddress := key("", "192.0.2.1:1")
	require.NotEmpty(t, byAddress)
	require.Equal(t, byAddress, key("ip", "192.0.2.1:2"))
	require.NotEqual(t, byAddress, key("ip", "192.0.2.2:1"))
	require.NotEqual(t, byAddress, key("ip", "192.0.2.2:1", "X", byAddress))

	shared := key("share", "192.0.2.1:1")
	require.NotEmpty(t, shared)
	require.Equal(t, shared, key("share", "192.0.2.2:1"))
	require.NotEqual(t, shared, key("share", "192.0.2.1:1", "X", shared))

	require.Empty(t, key("skip", "192.0.2.1:1"))
	require.Empty(t, key("reject", "192.0.2.1:1"))
}

// TestTwoClientsNeverShareAKey: two requests have the same key only if all their parts are the same, however the
// values are cut, what they hold and how long they are.
func TestTwoClientsNeverShareAKey(t *testing.T) {
	random := rand.New(rand.NewSource(14))
	value := func() string {
		length := 1 + random.Intn(4)
		if random.Intn(10) == 0 {
			length += maxPlainKey
		}
		text := ""
		for i := 0; i < length; i++ {
			text += string("ab:1=#@,\x00"[random.Intn(9)])
		}
		return text
	}
	for _, parts := range [][]string{{"path"}, {"path", "method"}, {"method", "path", "host"}, {"header:A", "header:B"}, {"path", "header:A"}, {"lower:path", "method"}} {
		seen := map[string][4]string{}
		for i := 0; i < 3000; i++ {
			values := [4]string{value(), value(), value(), value()}
			req := requestTo("/")
			req.URL.Path, req.Method, req.Host = values[0], values[1], values[2]
			req.Header.Set("A", values[0])
			req.Header.Set("B", values[1])
			used := [4]string{}
			for i, part := range parts {
				switch part {
				case "path", "lower:path", "header:A":
					used[i] = values[0]
				case "method", "header:B":
					used[i] = values[1]
				case "host":
					used[i] = hostName(values[2])
				}
			}
			key, ok := keyFor(t, req, parts...)
			require.True(t, ok)
			require.NotEmpty(t, key)
			if before, known := seen[key]; known {
				require.Equal(t, before, used, parts)
			}
			seen[key] = used
		}
	}
}

// TestSecretsAreNeverStored: what may be a credential is kept as a hash only, and so is what is long.
func TestSecretsAreNeverStored(t *testing.T) {
	const secret = "hunter2"
	req := requestTo("/?token="+secret, "X-Api-Key", secret, "Cookie", "sid="+secret)
	for _, parts := range [][]string{{"header:X-Api-Key"}, {"cookie:sid"}, {"query:token"}, {"header:X-Api-Key", "path"}, {"path", "cookie:sid"}, {"ip", "query:token"}} {
		key, ok := keyFor(t, req, parts...)
		require.True(t, ok)
		require.NotContains(t, key, secret, parts)
		require.Len(t, key, 17)
		require.NotContains(t, shownKey(key), secret)
	}
	for _, parts := range [][]string{{"basic"}, {"basic", "ip"}} {
		key, ok := keyFor(t, requestTo("/", "Authorization", basic(secret, secret)), parts...)
		require.True(t, ok)
		require.NotContains(t, key, secret, parts)
	}
	long, ok := keyFor(t, requestTo("/"+strings.Repeat("x", 100_000)), "path")
	require.True(t, ok)
	require.Less(t, len(long), maxPlainKey)
	require.NotEmpty(t, hashSalt())
	require.Equal(t, hashSalt(), hashSalt())
}

func TestShownKey(t *testing.T) {
	require.Equal(t, `"a\nb"`, shownKey(storedKey("a\nb", false, "salt")), "a log line is one line")
	require.Regexp(t, "^#[0-9a-f]{8}$", shownKey(storedKey("secret", true, "salt")))
	require.Equal(t, "192.0.2.1", shownKey("192.0.2.1"))
	require.Equal(t, "no key, 192.0.2.1", shownKey("@192.0.2.1"))
}

func TestHostName(t *testing.T) {
	for host, want := range map[string]string{
		"example.com":      "example.com",
		"Example.COM:8080": "example.com",
		"example.com.":     "example.com",
		"example.com.:80":  "example.com",
		"192.0.2.1:80":     "192.0.2.1",
		"[2001:DB8::1]":    "[2001:db8::1]",
		"[2001:db8::1]:80": "[2001:db8::1]",
		"":                 "",
	} {
		require.Equal(t, want, hostName(host), host)
	}
}

// FuzzHostName: neither case, nor a port, nor a final dot make another host.
func FuzzHostName(f *testing.F) {
	for _, seed := range []string{"example.com", "EXAMPLE.com.", "[::1]", "192.0.2.1", "", ":", "]:", "a:b:c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name := hostName(host)
		require.Equal(t, strings.ToLower(name), name)
		if strings.ContainsAny(host, ":[]") {
			return
		}
		require.Equal(t, name, hostName(host+":8080"))
		require.Equal(t, name, hostName(strings.ToLower(host)))
		if !strings.HasSuffix(host, ".") {
			require.Equal(t, name, hostName(host+"."))
			require.Equal(t, name, hostName(host+".:443"))
		}
	})
}
