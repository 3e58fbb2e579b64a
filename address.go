package sluice

import (
	"net/netip"
	"strings"
)

// The client's address.

// maxForwarded bounds how many entries of X-Forwarded-For are read: a client may send a hundred thousand.
const maxForwarded = 64

// clientKey is the client's address as a key: an IPv4 address as it is, an IPv6 address without the bits that its
// owner chooses.
func clientKey(v *visit) string {
	if v.ip == "" {
		peer := v.req.RemoteAddr
		colon := strings.LastIndexByte(peer, ':')
		if v.rules.client.forwarded || colon <= 0 || peer > ":" || strings.IndexByte(peer, ':') != colon {
			findClient(v)
		} else {
			v.ip = peer[:colon] // an IPv4 address that the server itself has written; IPv6 has more colons
		}
	}
	return v.ip
}

// findClient is the rare half of clientKey: for IPv6, and behind a proxy.
func findClient(v *visit) {
	v.ip = addressKey(clientAddress(v), v.rules.client.subnet)
	if v.ip == "" {
		v.ip = "unknown" // a peer without an address, as on a Unix socket
	}
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

// clientAddress finds the client's address by the strategy of Traefik's ipStrategy: the peer's address; or with a
// depth, the entry of X-Forwarded-For that is so many from the right; or else, with excluded addresses, the rightmost
// entry that is not one of them. Whatever is wrong with the header, the answer is the peer's address and never an
// empty one that all clients share.
func clientAddress(v *visit) netip.Addr {
	if v.addr.IsValid() {
		return v.addr
	}
	c := &v.rules.client
	if c.forwarded {
		v.addr = forwardedAddress(c, v.req.Header["X-Forwarded-For"])
	}
	if !v.addr.IsValid() {
		v.addr = parseAddress(v.req.RemoteAddr)
	}
	return v.addr
}

// clientStrategy says how to find the client's address.
type clientStrategy struct {
	forwarded bool // X-Forwarded-For is looked at, as depth or excluded say
	depth     int
	excluded  []netip.Prefix
	subnet    int // bits of an IPv6 address that make a key
}

// forwardedAddress picks the client from X-Forwarded-For, read from the right, where the trusted proxies write. A
// proxy that adds a line of its own instead of extending the last one means the same. The result is invalid when
// there is no such entry.
func forwardedAddress(c *clientStrategy, lines []string) netip.Addr {
	position := 0
	for i := len(lines) - 1; i >= 0; i-- {
		rest := lines[i]
		for more := true; more && position < maxForwarded; {
			entry := rest
			comma := strings.LastIndexByte(rest, ',')
			more = comma >= 0
			if more {
				entry = rest[comma+1:]
				rest = rest[:comma]
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

// parseAddress reads an address as it stands in RemoteAddr or X-Forwarded-For: with or without port, IPv6 with or
// without brackets, with or without zone. IPv4 written as IPv6 is the IPv4 address. The result is invalid for
// anything else.
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
