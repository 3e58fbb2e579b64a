package sluice

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
)

// Keys from inside a request: fields of its body, and claims of a token. All of it is whatever a client sends.

// maxBody is how much of a body is read to find a key, and how long a token may be.
const maxBody = 64 << 10

// fieldOf returns a field of the request's body: of a JSON object by its dotted path, or of a form by its name. ok is
// false when the body is none of these, is longer than maxBody, or lacks the field or has something other than a
// string, number or boolean there.
//
// JSON is known by its first character and not by the Content-Type, which the service behind may ignore as well. Two
// fields of the same name count as none, be it that a body is JSON and a form at once: which of them the service
// takes cannot be known here.
func fieldOf(v *visit, name string) (string, bool) {
	body := bodyOf(v)
	if len(body) == 0 {
		return "", false
	}
	inForm, ok := formField(v.req.Header.Get("Content-Type"), body, name)
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		if inJSON, found := jsonField(trimmed, name); found {
			return inJSON, !ok
		}
	}
	return inForm, ok
}

// formField returns a field of a form of either type.
func formField(contentType string, body []byte, name string) (string, bool) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", false
	}
	switch kind {
	case "application/x-www-form-urlencoded":
		return parameterOf(string(body), name)
	case "multipart/form-data":
		return partField(multipart.NewReader(bytes.NewReader(body), parameters["boundary"]), name)
	}
	return "", false
}

// maxParts bounds how many parts of a form are looked at.
const maxParts = 100

// partField returns a field of a multipart form, as single does. (The library's ReadForm would write uploaded files
// to disk.)
func partField(form *multipart.Reader, name string) (string, bool) {
	var values []string
	for i := 0; i < maxParts; i++ {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return single(values)
		}
		if err != nil {
			return "", false
		}
		if part.FormName() != name || part.FileName() != "" {
			continue
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return "", false
		}
		values = append(values, string(value))
	}
	return "", false
}

// bodyOf reads a body once, and puts back what it read, so that the next handler gets the body whole. It returns
// nothing for a body that is too long: a part of one is no use.
func bodyOf(v *visit) []byte {
	if v.read {
		return v.body
	}
	v.read = true
	req := v.req
	if req.Body == nil || req.Body == http.NoBody || req.ContentLength > maxBody {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	// After an error the rest of the body, read by the next handler, fails in the same way. (The server closes its
	// own body itself. A struct of Reader and Closer would read as empty: Yaegi does not pass embedded interfaces
	// on.)
	req.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), req.Body))
	// Reading has told the client to go on. Were the service to say so again, Traefik's proxy would pass that on, and
	// drop every header field that is set so far.
	delete(req.Header, "Expect")
	if err == nil && len(body) <= maxBody {
		v.body = body
	}
	return v.body
}

// claimOf returns a claim of the bearer token in the Authorization header (RFC 6750), a JSON Web Token (RFC 7519).
// The signature is not verified: the middleware that verifies it has to stand before this one.
func claimOf(req *http.Request, name string) (string, bool) {
	authorization, ok := single(req.Header["Authorization"])
	if !ok || len(authorization) > maxBody {
		return "", false
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	segments := strings.Split(strings.TrimSpace(token), ".")
	if len(segments) != 3 {
		return "", false
	}
	payload, err := base64.RawURLEncoding.DecodeString(segments[1])
	if err != nil {
		return "", false
	}
	return jsonField(payload, name)
}

// jsonField returns a string, number or boolean in a JSON object by its dotted path.
func jsonField(text []byte, path string) (string, bool) {
	return scalar(membersAt(text, path))
}

// membersAt returns the member that a dotted path leads to, and how many there are: names may have dots themselves,
// as a claim has that is a URL.
func membersAt(object []byte, path string) (json.RawMessage, int) {
	value, count := member(object, path)
	for i := 0; i < len(path); i++ {
		if path[i] != '.' {
			continue
		}
		inner, found := member(object, path[:i])
		if found == 1 {
			inner, found = membersAt(inner, path[i+1:])
		}
		if found > 0 {
			value = inner
			count += found
		}
	}
	return value, count
}

// maxMembers bounds how many members of an object are looked at.
const maxMembers = 200

// member returns the value of an object's member, and how many there are of that name. Upper and lower case are the
// same, as they are to many services: a client that sends "email" and "EMAIL" is not to be counted by one of them and
// served by the other.
func member(object []byte, name string) (value json.RawMessage, count int) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return nil, 0
	}
	for i := 0; decoder.More(); i++ {
		key, err := decoder.Token()
		if err != nil || i == maxMembers {
			return nil, 0
		}
		var one json.RawMessage
		if decoder.Decode(&one) != nil {
			return nil, 0
		}
		if strings.EqualFold(key.(string), name) {
			value = one
			count++
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, 0 // it breaks off
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, 0 // there is more after it
	}
	return value, count
}

// scalar is a JSON value as a key, if there is one of it. A number reads the same however it is written: 1, 1.0 and
// 1e0 are one client.
func scalar(text json.RawMessage, count int) (string, bool) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if count != 1 || decoder.Decode(&value) != nil {
		return "", false
	}
	switch v := value.(type) {
	case string:
		return v, v != ""
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		text := string(v)
		if text == "-0" {
			return "0", true
		}
		if strings.Trim(text, "-0123456789") == "" { // of any length: rounded, two long numbers could be one client
			return text, true
		}
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return "", false
		}
		if number == math.Trunc(number) && math.Abs(number) < 1<<53 {
			return strconv.FormatInt(int64(number), 10), true
		}
		return strconv.FormatFloat(number, 'g', -1, 64), true
	}
	return "", false
}
