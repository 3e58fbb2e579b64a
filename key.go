package sluice

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
)

// Who is asking: the key under which a request is counted.

// maxPlainKey is the longest key that is kept as it is. Longer ones are kept as a hash, so that a key of any length costs the same.
const maxPlainKey = 64

// maxForwarded bounds how many entries of X-Forwarded-For are read: a client may send a hundred thousand.
const maxForwarded = 64

// The sources of a key part.
const (
	fromIP = iota
	fromHost
	fromMethod
	fromPath
	fromHeader
	fromGlobal
)

// keyPart is one part of a limit's key.
type keyPart struct {
	source int
	name   string // of the header, in canonical form
	secret bool   // the value may be a credential or personal: only its hash is ever kept
}

// visit is what is found out about one request, each thing once however many limits ask for it.
type visit struct {
	rules *rules
	req   *http.Request
	now   int64
	addr  netip.Addr // the client; invalid until asked for
	ip    string     // addr as a key
}

// keyOf returns the key of a request under a limit, never empty. A request that lacks a part of it, such as a header, counts by the client's address,
// apart from the keys that have all parts.
func keyOf(v *visit, l *limit) string {
	if l.byIP {
		return clientKey(v)
	}
	key, ok := joinedKey(v, l.parts)
	if !ok {
		return "@" + clientKey(v)
	}
	return key
}

// joinedKey makes one key of all parts; ok is false when one is missing.
func joinedKey(v *visit, parts []keyPart) (key string, ok bool) {
	if len(parts) == 1 {
		value, ok := partOf(v, parts[0])
		return storedKey(value, parts[0].secret), ok
	}
	secret := false
	var joined strings.Builder
	for _, part := range parts {
		value, ok := partOf(v, part)
		if !ok {
			return "", false
		}
		// With each value's length before it, no two lists of values read the same.
		joined.WriteString(strconv.Itoa(len(value)))
		joined.WriteByte(':')
		joined.WriteString(value)
		secret = secret || part.secret
	}
	return storedKey(joined.String(), secret), true
}

// partOf returns the value of one key part; ok is false when the request does not have it, or has it more than once: which of several the service
// behind will take for the true one cannot be known here.
func partOf(v *visit, part keyPart) (value string, ok bool) {
	switch part.source {
	case fromIP:
		return clientKey(v), true
	case fromHost:
		return hostName(v.req.Host), true
	case fromMethod:
		return v.req.Method, true
	case fromPath:
		return v.req.URL.Path, true
	case fromHeader:
		values := v.req.Header[part.name]
		if len(values) != 1 || values[0] == "" {
			return "", false
		}
		return values[0], true
	}
	return "global", true
}

// hostName is a Host header without port, in lower case, without the final dot of a fully qualified name.
func hostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// storedKey is the form in which a key is kept: as it is, or hashed when it is long or secret. Plain keys begin with "=", so that nobody can send
// a plain value that reads like the hash of another's.
func storedKey(value string, secret bool) string {
	if !secret && len(value) <= maxPlainKey {
		return "=" + value
	}
	sum := sha256.Sum256([]byte(hashSalt() + value))
	return "#" + string(sum[:16])
}

var salt struct {
	once  sync.Once
	value string
}

// hashSalt is a random string of this process, put before whatever is hashed: without it a short hash of a guessable key could be looked up.
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

// clientKey is the client's address as a key: an IPv4 address as it is, an IPv6 address without the bits that its owner chooses.
func clientKey(v *visit) string {
	if v.ip == "" {
		v.ip = addressKey(clientAddress(v), v.rules.client.subnet)
		if v.ip == "" {
			v.ip = "unknown" // a peer without an address, as on a Unix socket
		}
	}
	return v.ip
}

func addressKey(addr netip.Addr, subnet int) string {
	if !addr.IsValid() {
		return ""
	}
	if addr.Is4() {
		return addr.String()
	}
	prefix, err := addr.Prefix(subnet)
	if err != nil {
		return addr.String()
	}
	return prefix.Addr().String()
}

// clientAddress finds the client's address by the strategy of Traefik's ipStrategy: the peer's address; or with a depth, the entry of X-Forwarded-For
// that is so many from the right; or else, with excluded addresses, the rightmost entry that is not one of them.
// Whatever is wrong with the header, the answer is the peer's address and never an empty one that all clients share.
func clientAddress(v *visit) netip.Addr {
	if v.addr.IsValid() {
		return v.addr
	}
	c := &v.rules.client
	if c.depth > 0 || len(c.excluded) > 0 {
		v.addr = forwardedAddress(c, v.req.Header["X-Forwarded-For"])
	}
	if !v.addr.IsValid() {
		v.addr = parseAddress(v.req.RemoteAddr)
	}
	return v.addr
}

// clientStrategy says how to find the client's address.
type clientStrategy struct {
	depth    int
	excluded []netip.Prefix
	subnet   int // bits of an IPv6 address that make a key
}

// forwardedAddress picks the client from X-Forwarded-For, read from the right, where the trusted proxies write. A proxy that adds a line of its own
// instead of extending the last one means the same. The result is invalid when there is no such entry.
func forwardedAddress(c *clientStrategy, lines []string) netip.Addr {
	position := 0
	for i := len(lines) - 1; i >= 0; i-- {
		rest := lines[i]
		for more := true; more && position < maxForwarded; {
			entry := rest
			comma := strings.LastIndexByte(rest, ',')
			more = comma >= 0
			if more {
				entry, rest = rest[comma+1:], rest[:comma]
			}
			position++
			if c.depth > 0 {
				if position == c.depth {
					return parseAddress(strings.TrimSpace(entry))
				}
				continue
			}
			entry = strings.TrimSpace(entry)
			if entry == "" {
				continue
			}
			addr := parseAddress(entry)
			if !addr.IsValid() || !containsAddress(c.excluded, addr) {
				return addr
			}
		}
	}
	return netip.Addr{}
}

// parseAddress reads an address as it stands in RemoteAddr or X-Forwarded-For: with or without port, IPv6 with or without brackets, with or
// without zone. IPv4 written as IPv6 is the IPv4 address. The result is invalid for anything else.
func parseAddress(text string) netip.Addr {
	host := text
	if colon := strings.LastIndexByte(text, ':'); colon >= 0 {
		if strings.HasPrefix(text, "[") {
			end := strings.IndexByte(text, ']')
			if end < 0 {
				return netip.Addr{}
			}
			host = text[1:end]
		} else if strings.IndexByte(text, ':') == colon {
			host = text[:colon] // one colon: IPv4 and port
		}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}

func containsAddress(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, prefix := range prefixes {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}
