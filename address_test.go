package sluice

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1":                "192.0.2.1",
		"192.0.2.1:80":             "192.0.2.1",
		"::ffff:192.0.2.1":         "192.0.2.1",
		"[::ffff:192.0.2.1]:80":    "192.0.2.1",
		"::ffff:c000:201":          "192.0.2.1",
		"2001:db8::1":              "2001:db8::1",
		"[2001:db8::1]":            "2001:db8::1",
		"[2001:db8::1]:80":         "2001:db8::1",
		"2001:0DB8:0:0:0:0:0:0001": "2001:db8::1",
		"fe80::1%eth0":             "fe80::1",
		"[fe80::1%eth0]:80":        "fe80::1",
		"::1":                      "::1",
	} {
		require.Equal(t, netip.MustParseAddr(want), parseAddress(text), text)
	}
	for _, text := range []string{"", "@", "unknown", "_hidden", "192.0.2", "192.0.2.256", "192.0.2.1.1", "010.0.0.1", "0x7f000001", "3221225985",
		"2001:db8::1::", "[2001:db8::1", "2001:db8::g", "example.com", "192.0.2.1, 192.0.2.2", "192.0.2.0/24", " 192.0.2.1", "::ffff:192.0.2.1:80", ":80"} {
		require.False(t, parseAddress(text).IsValid(), text)
	}
}

// visitOf is a visit from a peer with these lines of X-Forwarded-For, under an address strategy.
func visitOf(client clientStrategy, peer string, forwarded ...string) *visit {
	if client.subnet == 0 {
		client.subnet = 64
	}
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr = peer
	req.Header["X-Forwarded-For"] = forwarded
	return &visit{rules: &rules{client: client}, req: req}
}

func strategy(t *testing.T, c *IPStrategy) clientStrategy {
	t.Helper()
	client, err := compileClient(optionAt{c, "ipStrategy"})
	require.NoError(t, err)
	return client
}

func TestClientAddress(t *testing.T) {
	const peer = "198.51.100.9:4711"
	depth := func(n string) *IPStrategy { return &IPStrategy{Depth: n} }
	excluded := &IPStrategy{ExcludedIPs: []string{"10.0.0.0/8", " 192.0.2.7", "2001:db8:ffff::/48", "::ffff:172.16.0.0/108"}}
	for _, row := range []struct {
		name     string
		strategy *IPStrategy
		lines    []string
		want     string
	}{
		{"the peer", nil, []string{"192.0.2.1"}, "198.51.100.9"},
		{"depth 0 is the peer", depth("0"), []string{"192.0.2.1"}, "198.51.100.9"},
		{"depth 1", depth("1"), []string{"192.0.2.1, 192.0.2.2"}, "192.0.2.2"},
		{"depth 2", depth("2"), []string{"192.0.2.1, 192.0.2.2"}, "192.0.2.1"},
		{"depth 2 without spaces", depth("2"), []string{"192.0.2.1,192.0.2.2"}, "192.0.2.1"},
		{"depth 2 over two lines", depth("2"), []string{"192.0.2.1", "192.0.2.2"}, "192.0.2.1"},
		{"depth 3 over two lines", depth("3"), []string{"192.0.2.0, 192.0.2.1", "192.0.2.2, 192.0.2.3"}, "192.0.2.1"},
		{"depth at an entry with a port", depth("1"), []string{"192.0.2.1:4000"}, "192.0.2.1"},
		{"depth at a bracketed IPv6", depth("1"), []string{"[2001:db8::1]:4000"}, "2001:db8::1"},
		{"depth at an IPv4 in IPv6", depth("1"), []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		{"no header", depth("1"), nil, "198.51.100.9"},
		{"an empty header", depth("1"), []string{""}, "198.51.100.9"},
		{"too short", depth("3"), []string{"192.0.2.1, 192.0.2.2"}, "198.51.100.9"},
		{"garbage there", depth("2"), []string{"<script>, 192.0.2.2"}, "198.51.100.9"},
		{"garbage elsewhere", depth("1"), []string{"<script>, 192.0.2.2"}, "192.0.2.2"},
		{"nothing between commas counts", depth("2"), []string{"192.0.2.1,,192.0.2.2"}, "198.51.100.9"},

		{"excluded, none is", excluded, []string{"192.0.2.1, 192.0.2.2"}, "192.0.2.2"},
		{"excluded, the last", excluded, []string{"192.0.2.1, 192.0.2.2, 10.1.2.3"}, "192.0.2.2"},
		{"excluded, several over lines", excluded, []string{"192.0.2.1", "192.0.2.7, 10.1.2.3", "2001:db8:ffff::1"}, "192.0.2.1"},
		{"excluded, as IPv4 in IPv6", excluded, []string{"192.0.2.1, ::ffff:10.1.2.3"}, "192.0.2.1"},
		{"excluded by a range of IPv4 in IPv6", excluded, []string{"192.0.2.1, 172.16.0.1"}, "192.0.2.1"},
		{"excluded, with ports", excluded, []string{"192.0.2.1:1, 10.1.2.3:2"}, "192.0.2.1"},
		{"excluded, all of them", excluded, []string{"10.0.0.1, 10.0.0.2"}, "198.51.100.9"},
		{"excluded, no header", excluded, nil, "198.51.100.9"},
		{"excluded, garbage before a trusted one", excluded, []string{"192.0.2.1, who knows, 10.0.0.2"}, "198.51.100.9"},
		{"excluded, nothing between commas", excluded, []string{"192.0.2.1, , 10.0.0.2,"}, "192.0.2.1"},
	} {
		v := visitOf(strategy(t, row.strategy), peer, row.lines...)
		require.Equal(t, netip.MustParseAddr(row.want), clientAddress(v), row.name)
	}
}

func TestAddressKey(t *testing.T) {
	for _, row := range []struct {
		address string
		subnet  string
		want    string
	}{
		{"192.0.2.1", "", "192.0.2.1"},
		{"192.0.2.1", "8", "192.0.2.1"}, // it is for IPv6 only
		{"2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::"},
		{"2001:db8:1:2:3:4:5:6", "56", "2001:db8:1::"},
		{"2001:db8:1:2:3:4:5:6", "128", "2001:db8:1:2:3:4:5:6"},
		{"2001:db8:1:2:3:4:5:6", "1", "::"},
	} {
		v := visitOf(strategy(t, &IPStrategy{IPv6Subnet: row.subnet}), "["+row.address+"]:1")
		require.Equal(t, row.want, clientKey(v), "%s/%s", row.address, row.subnet)
		forwarded := visitOf(strategy(t, &IPStrategy{IPv6Subnet: row.subnet, Depth: "1"}), "192.0.2.99:1", row.address)
		require.Equal(t, row.want, clientKey(forwarded), "%s/%s, forwarded", row.address, row.subnet)
	}
	require.Equal(t, "unknown", clientKey(visitOf(clientStrategy{}, "@")))
}

// TestForwardedForIsReadInBounds: a client may send a hundred thousand entries.
func TestForwardedForIsReadInBounds(t *testing.T) {
	excluded := strategy(t, &IPStrategy{ExcludedIPs: []string{"10.0.0.0/8"}})
	const trusted = "10.0.0.1, "
	long := strings.Repeat(trusted, 100_000) + "10.0.0.1"
	lines := strings.Split(strings.Repeat("10.0.0.1\n", 100_000), "\n")
	for _, forwarded := range [][]string{{long}, lines, {"192.0.2.1," + strings.Repeat(trusted, maxForwarded)}} {
		require.Equal(t, "198.51.100.9", clientKey(visitOf(excluded, "198.51.100.9:1", forwarded...)))
	}
	require.Equal(t, "192.0.2.1", clientKey(visitOf(excluded, "198.51.100.9:1", "192.0.2.1"+strings.Repeat(",10.0.0.1", maxForwarded-1))))
	require.Equal(t, "192.0.2.1", clientKey(visitOf(strategy(t, &IPStrategy{Depth: strconv.Itoa(maxForwarded)}), "198.51.100.9:1", "192.0.2.1"+strings.Repeat(",x", maxForwarded-1))))

	v := visitOf(excluded, "198.51.100.9:1", long)
	began := time.Now()
	for i := 0; i < 1000; i++ {
		forwardedAddress(&v.rules.client, v.req.Header["X-Forwarded-For"])
	}
	require.Less(t, time.Since(began), 2*time.Second, "a thousand of them take a few milliseconds; all entries would take a minute")
}

// FuzzForwardedFor: whatever a client sends, it is counted by an address, and by the peer's if the header does not
// hold one where the strategy looks.
func FuzzForwardedFor(f *testing.F) {
	for _, seed := range []string{"192.0.2.1", "192.0.2.1, 10.0.0.1", "[2001:db8::1]:80", "::ffff:10.0.0.1", ",,,", "\n", "fe80::1%a,b", "[", "]:", "%"} {
		f.Add(seed, uint8(1))
		f.Add(seed, uint8(0))
	}
	f.Fuzz(func(t *testing.T, header string, position uint8) {
		excluded := []string{"10.0.0.0/8", "2001:db8::/32"}
		depth := int(position) % (maxForwarded + 1)
		if depth > 0 {
			excluded = nil
		}
		client := strategy(t, &IPStrategy{Depth: strconv.Itoa(depth), ExcludedIPs: excluded})
		key := clientKey(visitOf(client, "198.51.100.9:1", strings.Split(header, "\n")...))
		addr, err := netip.ParseAddr(key)
		require.NoError(t, err)
		require.Equal(t, addr.String(), key, "not canonical")
		require.False(t, addr.Is4In6())
		require.Empty(t, addr.Zone())
		if client.depth == 0 {
			require.False(t, addr.Is4() && containsAddress(client.excluded, addr), "a trusted proxy is nobody's client")
			return
		}
		want := netip.MustParseAddr("198.51.100.9")
		entries := strings.Split(strings.ReplaceAll(header, "\n", ","), ",")
		if client.depth <= len(entries) {
			if entry := parseAddress(strings.TrimSpace(entries[len(entries)-client.depth])); entry.IsValid() {
				want = entry
			}
		}
		require.Equal(t, addressKey(want, 64), key)
	})
}
