package sluice

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// Who is asking: the key under which a request is counted.

// maxPlainKey is the longest key that is kept as it is. Longer ones are kept as a hash, so that a key of any length
// costs the same.
const maxPlainKey = 64

// The sources of a key part.
const (
	fromIP = iota
	fromHost
	fromMethod
	fromPath
	fromPattern
	fromHeader
	fromCookie
	fromQuery
	fromBasic
	fromJWT
	fromBody
	fromGlobal
)

// keyPart is one part of a limit's key.
type keyPart struct {
	source int
	name   string // of the header, cookie, query parameter, claim or field
	fold   bool   // upper and lower case are the same
	secret bool   // the value may be a credential, or personal: only a hash of it is ever kept
}

// The answers to a request that lacks a part of a limit's key.
const (
	missingCountsIP = iota // it counts by the client's address
	missingSkips           // the limit does not apply
	missingShares          // all such requests share one counter
	missingRejects         // it is refused
)

// visit is what is found out about one request: each thing once, however many limits ask for it.
type visit struct {
	rules   *rules
	req     *http.Request
	now     int64
	addr    netip.Addr // the client; invalid until asked for
	ip      string     // addr as a key
	pattern string     // the path pattern of the limit at hand that the request fits
	body    []byte     // see bodyOf
	read    bool       // body was read
}

// keyOf returns the key of a request under a limit that does not count by address alone. It is empty when the limit
// does not count the request, as that lacks a part of the key: see limit.onMissing.
func keyOf(v *visit, l *limit) string {
	key, ok := joinedKey(v, l.parts, l.salt)
	if ok {
		return key
	}
	switch l.onMissing {
	case missingCountsIP:
		return "@" + clientKey(v)
	case missingShares:
		return "@"
	}
	return ""
}

// headerKey is keyOf for the frequent key of a single header.
func headerKey(v *visit, l *limit) string {
	values := v.req.Header[l.header]
	if len(values) != 1 || values[0] == "" {
		return keyOf(v, l)
	}
	sum := sha256.Sum256([]byte(l.salt + values[0]))
	return "#" + string(sum[:16])
}

// joinedKey makes one key of all parts; ok is false when one is missing.
func joinedKey(v *visit, parts []keyPart, salt string) (key string, ok bool) {
	if len(parts) == 1 {
		value, ok := partOf(v, &parts[0])
		return storedKey(value, parts[0].secret, salt), ok
	}
	values := make([]string, len(parts))
	for i := range parts {
		if values[i], ok = partOf(v, &parts[i]); !ok {
			return "", false
		}
	}
	return keyOfValues(values, parts, salt), true
}

// keyOfValues is the stored key of several parts' values. With each value's length before it no two lists of values
// read the same.
func keyOfValues(values []string, parts []keyPart, salt string) string {
	secret := false
	joined := ""
	for i, value := range values {
		joined += strconv.Itoa(len(value)) + ":" + value
		secret = secret || parts[i].secret
	}
	return storedKey(joined, secret, salt)
}

// partOf returns the value of one part of a key; ok is false when the request does not have it.
func partOf(v *visit, part *keyPart) (value string, ok bool) {
	switch part.source {
	case fromIP:
		return clientKey(v), true
	case fromHost:
		return hostName(v.req.Host), true
	case fromMethod:
		return strings.ToUpper(v.req.Method), true // as some services read it
	case fromPath:
		value = cleanPath(v.req.URL.Path)
		ok = true
	case fromPattern:
		return v.pattern, true
	case fromHeader:
		value, ok = single(v.req.Header[part.name])
	case fromCookie:
		value, ok = cookieOf(v.req, part.name)
	case fromQuery:
		value, ok = parameterOf(v.req.URL.RawQuery, part.name)
	case fromBasic:
		value, ok = userOf(v.req)
	case fromJWT:
		value, ok = claimOf(v.req, part.name)
	case fromBody:
		value, ok = fieldOf(v, part.name)
	case fromGlobal:
		return "global", true
	}
	if part.fold {
		value = strings.ToLower(value)
	}
	return value, ok
}

// single is the only value of a list. A request that has the same header or parameter twice has it ambiguously: which
// one the service behind will take for the true one cannot be known here, so it counts as missing.
func single(values []string) (string, bool) {
	if len(values) != 1 || values[0] == "" {
		return "", false
	}
	return values[0], true
}

// parameterOf returns a parameter that a query or a form has once. Of one that is malformed anywhere nothing counts:
// what one parser drops, another takes.
func parameterOf(query, name string) (string, bool) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", false
	}
	return single(values[name])
}

// userOf returns the user name of HTTP's basic authentication.
func userOf(req *http.Request) (string, bool) {
	if _, ok := single(req.Header["Authorization"]); !ok {
		return "", false
	}
	user, _, ok := req.BasicAuth()
	return user, ok && user != ""
}

// cookieOf returns the value of a cookie that is sent once.
func cookieOf(req *http.Request, name string) (string, bool) {
	cookie, err := req.Cookie(name)
	if err != nil || cookie.Value == "" {
		return "", false
	}
	all := strings.Join(req.Header["Cookie"], ";")
	if strings.Count(all, name) == 1 {
		return cookie.Value, true
	}
	// Perhaps it is there twice, perhaps it is part of another's name or value. The library drops what it cannot
	// read, and other parsers do not.
	cookies := strings.Split(strings.ReplaceAll(all, ",", ";"), ";")
	if len(cookies) > maxCookies {
		return "", false
	}
	found := 0
	for _, other := range cookies {
		other, _, _ = strings.Cut(other, "=")
		if strings.TrimSpace(other) == name {
			found++
		}
	}
	return cookie.Value, found == 1
}

// maxCookies bounds how many cookies are looked at one by one; a browser keeps no more for a site.
const maxCookies = 200

// hostName is a Host header without port, in lower case, without the final dot of a fully qualified name.
func hostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// storedKey is the form in which a key is kept: as it is, or hashed when it is long or secret. The first byte tells
// them apart, so that nobody can send a plain value that reads like the hash of another's. (An address that is a key
// of its own is kept bare: it begins with a digit, a to f, or a colon.) salt is put before what is hashed.
func storedKey(value string, secret bool, salt string) string {
	if !secret && len(value) <= maxPlainKey {
		return "=" + value
	}
	sum := sha256.Sum256([]byte(salt + value))
	return "#" + string(sum[:16])
}

// shownKey is a stored key as logs show it: what is secret, as eight digits of its hash.
func shownKey(key string) string {
	switch key[0] {
	case '=':
		return strconv.Quote(key[1:])
	case '#':
		return "#" + hex.EncodeToString([]byte(key[1:5]))
	case '@':
		return strings.TrimSuffix("no key, "+key[1:], ", ")
	}
	return key
}

var salt struct {
	once  sync.Once
	value string
}

// hashSalt is a random string of this process, put before what is hashed: without it a short hash of a guessable key
// could be looked up. Gateways that share counters have another in common, see RedisConfig.HashKey.
func hashSalt() string {
	salt.once.Do(makeSalt)
	return salt.value
}

func makeSalt() {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		panic(err) // no system that runs Traefik lacks a random source
	}
	salt.value = string(random)
}
