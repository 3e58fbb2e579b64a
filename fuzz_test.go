package sluice

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Whatever a client sends: nothing panics, and what is ambiguous is not taken. testdata/fuzz has inputs that lead to
// different places.

// asked is a visit with one header field.
func asked(name, value string) *visit {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.Header[name] = []string{value}
	return &visit{rules: &rules{}, req: req}
}

func FuzzClaim(f *testing.F) {
	f.Add("Bearer e30.eyJzdWIiOiJhbGljZSJ9.c2ln", "alice")
	f.Add("bearer  a.eyJzdWIiOjQyfQ.", "é \"\\\x00")
	f.Add("Bearer a.eyJzdWIiOnsieCI6MX19.c.d", "")
	f.Fuzz(func(t *testing.T, authorization, subject string) {
		for _, claim := range []string{"sub", "a.b.c", "https://example.com/sub", "."} {
			value, ok := claimOf(asked("Authorization", authorization).req, claim)
			require.Equal(t, ok, value != "", "a claim without a value is none")
		}
		if !utf8.ValidString(subject) || len(subject) > 1000 {
			return
		}
		claims, err := json.Marshal(map[string]any{"sub": subject, "other": 1})
		require.NoError(t, err)
		value, ok := claimOf(asked("Authorization", "bEARER x."+base64.RawURLEncoding.EncodeToString(claims)+".x").req, "sub")
		require.Equal(t, subject, value)
		require.Equal(t, ok, subject != "")
	})
}

func FuzzCookie(f *testing.F) {
	f.Add("sid=alice")
	f.Add(`a=b; sid="x y"; psid=1,sid =2`)
	f.Add("sid;=; sid\t=;sid=\x7f")
	f.Fuzz(func(t *testing.T, line string) {
		value, ok := cookieOf(asked("Cookie", line).req, "sid")
		if !ok {
			return
		}
		require.NotEmpty(t, value)
		require.Contains(t, line, value)
		for _, twice := range []string{line + "; sid=other", "sid=other; " + line, line + ";sid =other", line + ",sid=other"} {
			value, ok := cookieOf(asked("Cookie", twice).req, "sid")
			require.False(t, ok && value != "other", "%q is there twice", twice)
			require.False(t, ok, "%q is there twice", twice)
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add("key=alice")
	f.Add("k%65y=a+b&x;y=%zz&=")
	f.Fuzz(func(t *testing.T, query string) {
		value, ok := parameterOf(query, "key")
		require.Equal(t, ok, value != "")
		if ok {
			_, ok = parameterOf(query+"&key=other", "key")
			require.False(t, ok, "it is there twice")
		}
	})
}

func FuzzBody(f *testing.F) {
	f.Add("application/json", []byte(`{"user":{"email":"a"}}`))
	f.Add("", []byte(`{"user.email":1e3} `))
	f.Add("application/x-www-form-urlencoded", []byte(`x={"&user.email=a%20b`))
	f.Add("application/x-www-form-urlencoded", []byte(`{"user.email":"a","x":"&user.email=b&"}`))
	f.Add("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"user.email\"\r\n\r\na\r\n--b--\r\n"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		v := asked("Content-Type", contentType)
		v.req.Body = io.NopCloser(bytes.NewReader(body))
		v.req.ContentLength = -1
		value, ok := fieldOf(v, "user.email")
		if ok {
			require.NotEmpty(t, value)
			require.LessOrEqual(t, len(body), maxBody)
		}
		handedOn, err := io.ReadAll(v.req.Body)
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, handedOn))
	})
}

func FuzzAccept(f *testing.F) {
	f.Add("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	f.Add("text/plain;q=0.5, TEXT/*;Q=1e-1,application/json")
	f.Add(",;q=,*/*;q=NaN;q=2")
	f.Fuzz(func(t *testing.T, accept string) {
		want := preferred([]string{accept})
		require.Contains(t, []string{problemType, plainType, htmlType}, want)
		if len(accept) > maxAccept-20 {
			return
		}
		require.Equal(t, want, preferred([]string{accept, "image/png;q=1"}), "a type that is not there makes no difference")
		require.Equal(t, want, preferred([]string{strings.Map(upper, accept)}), "nor does upper case")
	})
}

// upper is the upper case of an ASCII letter; the others have no business in a media type.
func upper(r rune) rune {
	if 'a' <= r && r <= 'z' {
		return r - 'a' + 'A'
	}
	return r
}

// FuzzPath: an exempt path is one that the service cannot take for another.
func FuzzPath(f *testing.F) {
	f.Add("/assets/a.js")
	f.Add("/assets/..;/%2e%2e/x")
	f.Add("//assets/./x%2F..")
	exempt, err := compilePaths([]string{"/assets/"}, "paths")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, path string) {
		u, err := http.NewRequest(http.MethodGet, "http://example.com/"+strings.TrimLeft(path, "/"), nil)
		if err != nil {
			return
		}
		clean := cleanPath(u.URL.Path)
		require.Equal(t, clean, cleanPath(clean))
		require.Equal(t, patternOf(exempt, clean) != "", patternOf(exempt, u.URL.Path) != "", "%q leads to %q", u.URL.Path, clean)
		if isPlainPath(u.URL) {
			require.Equal(t, clean, u.URL.EscapedPath())
			require.NotContains(t, u.URL.Path, "..;")
			require.NotContains(t, u.URL.Path, "//")
			require.NotContains(t, u.URL.Path+"/", "/../")
		}
	})
}
