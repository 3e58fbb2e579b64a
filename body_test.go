package sluice_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// Keys from a request's body, and what becomes of the body.

const (
	formType = "application/x-www-form-urlencoded"
	maxBody  = 64 << 10
)

func TestBodyJSON(t *testing.T) {
	for _, row := range []struct{ field, body, value string }{
		{"email", `{"email":"a@example.com"}`, "a@example.com"},
		{"email", " \r\n\t{\n \"name\": {}, \"email\" : \"a@example.com\" }\n", "a@example.com"},
		{"email", `{"email":"\u0061\u0040example.com"}`, "a@example.com"},
		{"email", `{"EMAIL":"a@example.com"}`, "a@example.com"},
		{"User.Email", `{"user":{"email":"a@example.com"}}`, "a@example.com"},
		{"email", `{"user":{"email":"other"},"email":"a@example.com","list":[{"email":"other"}]}`, "a@example.com"},
		{"email", `{"email":"ü 世界"}`, "ü 世界"},
		{"user.email", `{"user":{"email":"a@example.com"}}`, "a@example.com"},
		{"a.b.c.d", `{"a":{"b":{"c":{"d":"deep"}}}}`, "deep"},
		{"user.email", `{"user.email":"a@example.com"}`, "a@example.com"},
		{"https://example.com/id", `{"https://example.com/id":"a"}`, "a"},
		{"id", `{"id":true}`, "true"},
		{"id", `{"id":false}`, "false"},
		// A number is one client however it is written.
		{"id", `{"id":1}`, "1"},
		{"id", `{"id":1.0}`, "1"},
		{"id", `{"id":1e0}`, "1"},
		{"id", `{"id":0.01E2}`, "1"},
		{"id", `{"id":-0}`, "0"},
		{"id", `{"id":-0.0}`, "0"},
		{"id", `{"id":-7}`, "-7"},
		{"id", `{"id":0.5}`, "0.5"},
		{"id", `{"id":5e-1}`, "0.5"},
		{"id", `{"id":9007199254740993}`, "9007199254740993"},
		{"id", `{"id":9223372036854775807}`, "9223372036854775807"},
		{"id", `{"id":1e21}`, "1e+21"},
		{"id", `{"id":1000000000000000000000}`, "1000000000000000000000"},
		{"id", `{"id":1e-999}`, "0"},
		// What has no value there. Of two, who knows which one the service takes.
		{"email", `{"email":"first","email":"last"}`, ""},
		{"email", `{"email":"first","EMAIL":"last"}`, ""},
		{"email", `{"email":"first","\u0065mail":"last"}`, ""},
		{"user.email", `{"user":{"email":"first"},"USER":{"email":"last"}}`, ""},
		{"email", `{` + strings.Repeat(`"x":0,`, 1000) + `"email":"last"}`, ""},
		{"email", `{"email":null}`, ""},
		{"email", `{"email":""}`, ""},
		{"email", `{"email":["a"]}`, ""},
		{"email", `{"email":{"a":"b"}}`, ""},
		{"email", `{"user":{"email":"a"}}`, ""},
		{"user.email", `{"user":"a"}`, ""},
		{"user.email", `{"user":["email","a"]}`, ""},
		{"user.email", `{"user":null}`, ""},
		{"user.0", `{"user":["a"]}`, ""},
		{"id", `{"id":1e999}`, ""},
		{"id", `{"id":01}`, ""},
		{"id", `{"id":NaN}`, ""},
		{"email", ``, ""},
		{"email", ` `, ""},
		{"email", `null`, ""},
		{"email", `"email"`, ""},
		{"email", `[{"email":"a"}]`, ""},
		{"email", `{"email":"a"`, ""},
		{"email", `{"email":"a",}`, ""},
		{"email", `{'email':'a'}`, ""},
		{"email", `{email:"a"}`, ""},
		{"email", "\ufeff" + `{"email":"a"}`, ""},
		{"email", `{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `,"email":"a"}`, ""},
	} {
		for _, kind := range []string{"application/json", "text/plain", "", "nonsense/;;"} { // a service may ignore it
			requireKey(t, "body:"+row.field, row.value, post("/", row.body, "Content-Type", kind), "%s in %.60s as %q", row.field, row.body, kind)
		}
	}
}

func TestBodyForm(t *testing.T) {
	for _, row := range []struct{ kind, body, value string }{
		{formType, "email=a%40example.com&x=1", "a@example.com"},
		{formType, "x=1&e%6Dail=a@example.com", "a@example.com"},
		{"Application/X-WWW-Form-Urlencoded; charset=UTF-8", "email=a+b", "a b"},
		{formType, "email=" + strings.Repeat("x", 1000), strings.Repeat("x", 1000)},
		{formType, "email=", ""},
		{formType, "Email=a", ""},
		{formType, "email=a&email=b", ""}, // which one the service takes is not known
		{formType, "email=a&email=a", ""},
		{formType, "email=a;x=1", ""},
		{formType, "email=%zz", ""},
		{"", "email=a", ""},
		{"text/plain", "email=a", ""},
		{formType + "; charset=a; charset=b", "email=a", ""},
	} {
		requireKey(t, "body:email", row.value, post("/", row.body, "Content-Type", row.kind), "%s as %s", row.body, row.kind)
	}
}

func TestBodyMultipart(t *testing.T) {
	part := func(header, value string) string { return "--b\r\n" + header + "\r\n\r\n" + value + "\r\n" }
	email := part(`Content-Disposition: form-data; name="email"`, "a@example.com")
	other := part(`Content-Disposition: form-data; name="other"`, "x")
	file := part("Content-Disposition: form-data; name=\"email\"; filename=\"a.txt\"\r\nContent-Type: text/plain", "from a file")
	const end, kind = "--b--\r\n", "multipart/form-data; boundary=b"
	for name, row := range map[string]struct{ kind, body, value string }{
		"one field":           {kind, email + end, "a@example.com"},
		"among others":        {kind, other + email + other + end, "a@example.com"},
		"after a preamble":    {kind, "Hello.\r\n" + email + end, "a@example.com"},
		"beside a file":       {kind, file + email + end, "a@example.com"},
		"just a file":         {kind, file + end, ""},
		"not there":           {kind, other + end, ""},
		"twice":               {kind, email + other + email + end, ""},
		"empty":               {kind, part(`Content-Disposition: form-data; name="email"`, "") + end, ""},
		"cut short":           {kind, email + "--b\r\nContent-Disp", ""},
		"no end":              {kind, strings.TrimSuffix(email, "\r\n"), ""},
		"another boundary":    {"multipart/form-data; boundary=c", email + end, ""},
		"no boundary":         {"multipart/form-data", email + end, ""},
		"not a form":          {"multipart/mixed; boundary=b", email + end, ""},
		"nothing":             {kind, "", ""},
		"a hundred parts":     {kind, email + strings.Repeat(other, 98) + end, "a@example.com"},
		"more than a hundred": {kind, email + strings.Repeat(other, 100) + end, ""},
	} {
		requireKey(t, "body:email", row.value, post("/", row.body, "Content-Type", row.kind), name)
	}
}

// bodies are of the lengths around the bound, all JSON with an e-mail address at the end.
func bodies() [][]byte {
	var all [][]byte
	for _, size := range []int{30, maxBody - 1, maxBody, maxBody + 1, maxBody + 2, 300_000} {
		const frame = `{"x":"","email":"a"}`
		all = append(all, []byte(`{"x":"`+strings.Repeat("x", size-len(frame))+`","email":"a"}`))
	}
	return all
}

// bySize sends a body with its length, in chunks, and by and by.
func bySize(body []byte) map[string]*http.Request {
	chunked := post("/", "")
	chunked.Body = io.NopCloser(bytes.NewReader(body))
	chunked.ContentLength = -1
	chunked.TransferEncoding = []string{"chunked"}
	slow := post("/", string(body))
	slow.Body = io.NopCloser(iotest.HalfReader(bytes.NewReader(body)))
	return map[string]*http.Request{"with its length": post("/", string(body)), "chunked": chunked, "in pieces": slow}
}

func TestBodyOfAnyLength(t *testing.T) {
	for _, body := range bodies() {
		for name, req := range bySize(body) {
			value := "a"
			if len(body) > maxBody {
				value = ""
			}
			requireKey(t, "body:email", value, req, "%d bytes %s", len(body), name)
		}
	}
}

// TestBodyIsHandedOnWhole: whatever the limits read of it.
func TestBodyIsHandedOnWhole(t *testing.T) {
	var got []byte
	var length int64
	next := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var err error
		got, err = io.ReadAll(req.Body)
		require.NoError(t, err)
		require.NoError(t, req.Body.Close())
		length = req.ContentLength
	})
	h, err := build(limits(
		window(1000, "key", "body:email"),
		window(1000, "key", []any{"body:email", "body:other"}),
		window(1000, "match", options{"methods": "POST"}),
	), next, fresh(t))
	require.NoError(t, err)
	for _, body := range append(bodies(), []byte("x"), []byte("{"), bytes.Repeat([]byte{0xff, 0}, 40_000)) {
		for name, req := range bySize(body) {
			want := req.ContentLength
			h.ServeHTTP(httptest.NewRecorder(), req)
			require.True(t, bytes.Equal(body, got), "%d bytes %s", len(body), name)
			require.Equal(t, want, length)
		}
	}
	h.ServeHTTP(httptest.NewRecorder(), post("/", ""))
	require.Empty(t, got)
}

// TestBodyThatFails: the next handler meets the same error at the same place.
func TestBodyThatFails(t *testing.T) {
	broken := errors.New("connection reset")
	for _, size := range []int{0, 1, 1000, maxBody, maxBody + 1, 100_000} {
		sent := bytes.Repeat([]byte("x"), size)
		var got []byte
		var failure error
		next := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { got, failure = io.ReadAll(req.Body) })
		h, err := build(limits(window(1000, "key", "body:email")), next, fresh(t))
		require.NoError(t, err)
		req := post("/", "")
		req.Body = io.NopCloser(io.MultiReader(bytes.NewReader(sent), iotest.ErrReader(broken)))
		req.ContentLength = -1
		h.ServeHTTP(httptest.NewRecorder(), req)
		require.ErrorIs(t, failure, broken)
		require.True(t, bytes.Equal(sent, got), "%d bytes", size)
	}
}

// counting counts what is read of a body.
type counting struct {
	io.Reader
	read int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

func (c *counting) Close() error { return nil }

// TestBodyBomb: no more than the bound is read of a body that has no end, and nothing of one that says that it is too
// long, or that no limit asks for. The client counts by address, and gets no further than that.
func TestBodyBomb(t *testing.T) {
	endless := func(length int64) (*http.Request, *counting) {
		body := &counting{Reader: zeros{}}
		req := post("/", "")
		req.Body = body
		req.ContentLength = length
		return req, body
	}
	h := limited(t, limits(window(2, "key", "body:email", "match", options{"methods": "POST"})))
	for _, want := range []int{200, 200, 429, 429} {
		req, body := endless(-1)
		require.Equal(t, want, send(h, req).StatusCode)
		require.LessOrEqual(t, body.read, maxBody+1)
	}
	req, body := endless(maxBody + 1)
	require.Equal(t, 429, send(h, req).StatusCode)
	require.Zero(t, body.read)
	req, body = endless(-1)
	req.Method = http.MethodPut
	require.Equal(t, 200, send(h, req).StatusCode)
	require.Zero(t, body.read)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestBodyAfterExpect: a client that waits for "100 Continue" gets it when a limit wants to see the body, and the
// service gets the body.
func TestBodyAfterExpect(t *testing.T) {
	next := http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) { _, _ = io.Copy(rw, req.Body) })
	h, err := build(limits(window(1, "key", "body:email")), next, fresh(t))
	require.NoError(t, err)
	server := httptest.NewServer(h)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	defer client.CloseIdleConnections()
	for i, want := range []int{200, 429, 200} {
		body := `{"email":"` + strconv.Itoa(i/2) + `"}`
		req, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Expect", "100-continue")
		response, err := client.Do(req)
		require.NoError(t, err)
		answer, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, want, response.StatusCode)
		require.Equal(t, want == 200, string(answer) == body, "%s", answer)
	}
}
