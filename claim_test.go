package sluice_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys from credentials: bearer tokens, cookies, query parameters, headers, user names.

// token is a JSON Web Token with these claims. Nobody looks at its signature.
func token(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(claims)) + ".c2lnbmF0dXJl"
}

func TestClaims(t *testing.T) {
	for _, row := range []struct{ claim, claims, value string }{
		{"sub", `{"sub":"alice"}`, "alice"},
		{"sub", `{"sub":"~~~???"}`, "~~~???"}, // "_" and "-" in base64url
		{"sub", `{"sub":"世界"}`, "世界"},
		{"sub", `{"sub":42}`, "42"},
		{"sub", `{"sub":42.0}`, "42"},
		{"admin", `{"admin":true}`, "true"},
		{"realm.name", `{"realm":{"name":"acme"}}`, "acme"},
		{"https://example.com/plan", `{"https://example.com/plan":"gold"}`, "gold"},
		{"cognito:username", `{"cognito:username":"alice"}`, "alice"},
		{"aud", `{"aud":["a","b"]}`, ""},
		{"sub", `{"sub":{"id":1}}`, ""},
		{"sub", `{"sub":null}`, ""},
		{"sub", `{"sub":""}`, ""},
		{"sub", `{}`, ""},
		{"sub", `[]`, ""},
		{"sub", `"sub"`, ""},
		{"sub", `null`, ""},
		{"sub", ``, ""},
		{"sub", `{"sub":"alice"`, ""},
	} {
		requireKey(t, "jwt:"+row.claim, row.value, get("/", "Authorization", "Bearer "+token(row.claims)), "%s in %s", row.claim, row.claims)
	}
}

func TestBearerTokens(t *testing.T) {
	alices := token(`{"sub":"alice"}`)
	parts := strings.Split(alices, ".")
	padded := base64.URLEncoding.EncodeToString([]byte(`{"sub":"alice!"}`))
	require.Contains(t, padded, "=")
	long := func(size int) string {
		return token(`{"sub":"alice","x":"` + strings.Repeat("x", size) + `"}`)
	}
	for name, row := range map[string]struct {
		values []string
		value  string
	}{
		"as it should be":   {[]string{"Bearer " + alices}, "alice"},
		"in lower case":     {[]string{"bearer " + alices}, "alice"},
		"in upper case":     {[]string{"BEARER " + alices}, "alice"},
		"more spaces":       {[]string{"Bearer   " + alices + " "}, "alice"},
		"no signature":      {[]string{"Bearer " + parts[0] + "." + parts[1] + "."}, "alice"}, // alg none: the verifying middleware refuses it
		"any header":        {[]string{"Bearer ." + parts[1] + "."}, "alice"},
		"50 kB":             {[]string{"Bearer " + long(37_000)}, "alice"},
		"too long":          {[]string{"Bearer " + long(64<<10)}, ""},
		"no header":         {nil, ""},
		"empty":             {[]string{""}, ""},
		"twice":             {[]string{"Bearer " + alices, "Bearer " + alices}, ""},
		"beside another":    {[]string{"Bearer " + alices, "Basic YTpi"}, ""},
		"another scheme":    {[]string{"Basic " + alices}, ""},
		"scheme alone":      {[]string{"Bearer"}, ""},
		"no scheme":         {[]string{alices}, ""},
		"no space":          {[]string{"Bearer" + alices}, ""},
		"two segments":      {[]string{"Bearer " + parts[0] + "." + parts[1]}, ""},
		"four segments":     {[]string{"Bearer " + alices + ".x"}, ""},
		"five, encrypted":   {[]string{"Bearer a.b.c.d.e"}, ""},
		"opaque":            {[]string{"Bearer 0123456789abcdef"}, ""},
		"not base64url":     {[]string{"Bearer a.!!!.c"}, ""},
		"padded":            {[]string{"Bearer a." + padded + ".c"}, ""}, // RFC 7515 leaves the padding out
		"empty segment":     {[]string{"Bearer a..c"}, ""},
		"not JSON":          {[]string{"Bearer a." + base64.RawURLEncoding.EncodeToString([]byte("alice")) + ".c"}, ""},
		"invalid in UTF-8":  {[]string{"Bearer a." + base64.RawURLEncoding.EncodeToString([]byte("\xff\xfe")) + ".c"}, ""},
		"thousands of dots": {[]string{"Bearer " + strings.Repeat(".", 60_000)}, ""},
	} {
		req := get("/")
		if row.values != nil {
			req.Header["Authorization"] = row.values
		}
		requireKey(t, "jwt:sub", row.value, req, name)
	}
}

func TestCookies(t *testing.T) {
	for _, row := range []struct {
		lines []string
		value string
	}{
		{[]string{"sid=alice"}, "alice"},
		{[]string{"a=b; sid=alice; c=d"}, "alice"},
		{[]string{"a=b", "sid=alice"}, "alice"},
		{[]string{`sid="alice"`}, "alice"},
		{[]string{"psid=x; sid=alice; sidx=y"}, "alice"},
		{[]string{"a=sid=x; sid=alice"}, "alice"},
		{[]string{"sid=alice; SID=x"}, "alice"},
		{[]string{"sid=a=b"}, "a=b"},
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"sid"}, ""},
		{[]string{"sid="}, ""},
		{[]string{"psid=x"}, ""},
		{[]string{"a=sid=x"}, ""},
		{[]string{"sid=alice; sid=alice"}, ""}, // which one the service takes is not known
		{[]string{"sid=alice; sid=bob"}, ""},
		{[]string{"sid=alice", "sid=bob"}, ""},
		{[]string{"sid=alice;" + strings.Repeat("sid=x;", 5000)}, ""},
		{[]string{strings.Repeat("a=sid=;", 5000) + "sid=alice"}, ""}, // too many to look at
	} {
		req := get("/")
		if row.lines != nil {
			req.Header["Cookie"] = row.lines
		}
		requireKey(t, "cookie:sid", row.value, req, "%.60q", row.lines)
	}
}

func TestQuery(t *testing.T) {
	for query, value := range map[string]string{
		"?key=alice":         "alice",
		"?x=1&key=alice&y":   "alice",
		"?k%65y=al%69ce":     "alice",
		"?key=a+b":           "a b",
		"?key=a=b":           "a=b",
		"":                   "",
		"?":                  "",
		"?key":               "",
		"?key=":              "",
		"?KEY=alice":         "",
		"?key[]=alice":       "",
		"?key=alice&key=bob": "",
		"?key=alice&key=":    "",
		"?key=alice&k%65y=x": "",
		"?key=%zz":           "",
		"?key=alice;key=bob": "",
		"?key=&key=alice":    "",
	} {
		requireKey(t, "query:key", value, get("/"+query), query)
	}
}

func TestHeader(t *testing.T) {
	for _, row := range []struct {
		values []string
		value  string
	}{
		{[]string{"alice"}, "alice"},
		{[]string{"a, b"}, "a, b"},
		{[]string{strings.Repeat("x", 1<<20)}, strings.Repeat("x", 1<<20)},
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"alice", "alice"}, ""},
		{[]string{"alice", ""}, ""},
	} {
		req := get("/")
		if row.values != nil {
			req.Header["X-Api-Key"] = row.values
		}
		requireKey(t, "header:x-aPI-key", row.value, req, "%.60q", row.values)
	}
}

func TestBasic(t *testing.T) {
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, row := range []struct{ authorization, value string }{
		{basic("alice:secret"), "alice"},
		{basic("alice:"), "alice"},
		{basic("alice:a:b"), "alice"},
		{strings.Replace(basic("alice:x"), "Basic", "bASIC", 1), "alice"},
		{"", ""},
		{basic("alice"), ""},
		{"Basic !!!", ""},
		{"Bearer " + token(`{"sub":"alice"}`), ""},
	} {
		requireKey(t, "basic", row.value, get("/", "Authorization", row.authorization), row.authorization)
	}
	require.True(t, share(t, "basic", get("/", "Authorization", basic("alice:1")), get("/", "Authorization", basic("alice:2"))), "the password is no part of it")
	require.False(t, share(t, "basic", get("/", "Authorization", basic("alice:1")), get("/", "Authorization", basic("bob:1"))))
}

// TestLower: a part with lower: before it is the same in upper and lower case, others are not.
func TestLower(t *testing.T) {
	for key, ask := range map[string]func(value string) *http.Request{
		"header:X-Key": func(value string) *http.Request { return get("/", "X-Key", value) },
		"query:key":    func(value string) *http.Request { return get("/?key=" + value) },
		"cookie:sid":   func(value string) *http.Request { return get("/", "Cookie", "sid="+value) },
		"path":         func(value string) *http.Request { return get("/" + value) },
		"body:email":   func(value string) *http.Request { return post("/", `{"email":"`+value+`"}`) },
		"jwt:sub": func(value string) *http.Request {
			return get("/", "Authorization", "Bearer "+token(`{"sub":"`+value+`"}`))
		},
	} {
		require.False(t, share(t, key, ask("Alice"), ask("aLICE")), key)
		require.True(t, share(t, "lower:"+key, ask("Alice"), ask("aLICE")), key)
	}
	require.True(t, share(t, "host", get("http://Example.COM:80/"), get("http://example.com./")))
}
