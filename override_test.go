package sluice_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Other numbers for single keys.

func TestOverrideNumbers(t *testing.T) {
	h := limited(t, limits(window(1, "key", "header:X-Key", "overrides", []any{
		options{"key": "gold", "requests": 3},
		options{"key": "slow", "window": "48h"},
		options{"key": "both", "requests": "2", "window": "2h"},
		options{"key": "monitor", "unlimited": true},
	})))
	for key, want := range map[string][]int{
		"other": {200, 429}, "gold": {200, 200, 200, 429}, "slow": {200, 429}, "both": {200, 200, 429}, "Gold": {200, 429},
	} {
		require.Equal(t, want, statuses(h, len(want), alice, "X-Key", key), key)
	}
	limitOf := func(key string) string { return send(h, get("/", "X-Key", key)).Header.Get("X-Ratelimit-Limit") }
	require.Equal(t, "3", limitOf("gold"))
	require.Equal(t, "1", limitOf("new"))
	require.Equal(t, "172800", send(h, get("/", "X-Key", "slow")).Header.Get("Retry-After"))
	require.Equal(t, "7200", send(h, get("/", "X-Key", "both")).Header.Get("Retry-After"))
}

// TestUnlimited: such a key is never refused, and has no business with the numbers.
func TestUnlimited(t *testing.T) {
	h := limited(t, with(limits(
		window(1, "name", "by-key", "key", "header:X-Key", "overrides", options{"key": "monitor", "unlimited": "true"}),
		window(50, "name", "all"),
	), "headers", "ietf"))
	for i := 0; i < 50; i++ {
		response := send(h, get("/", "X-Key", "monitor"))
		require.Equal(t, 200, response.StatusCode)
		require.NotContains(t, response.Header.Get("Ratelimit"), "by-key")
		require.NotContains(t, response.Header.Get("Ratelimit-Policy"), "by-key")
	}
	require.Equal(t, 429, send(h, get("/", "X-Key", "monitor")).StatusCode, "by the other limit")

	alone := limited(t, limits(window(1, "key", "header:X-Key", "overrides", options{"key": "monitor", "unlimited": 1})))
	require.False(t, isCounted(alone, get("/", "X-Key", "monitor")))
}

func TestOverrideBuckets(t *testing.T) {
	h := limited(t, limits(options{"average": 1, "period": "1h", "burst": 2, "key": "header:X-Key", "overrides": []any{
		options{"key": "big", "burst": 4},
		options{"key": "slow", "period": "2h"},
		options{"key": "much", "average": 10, "period": "1h"}, // its burst is the limit's
	}}))
	for key, want := range map[string][]int{"other": {200, 200, 429}, "big": {200, 200, 200, 200, 429}, "slow": {200, 200, 429}, "much": {200, 200, 429}} {
		require.Equal(t, want, statuses(h, len(want), alice, "X-Key", key), key)
	}
	require.Equal(t, "7200", send(h, get("/", "X-Key", "slow")).Header.Get("Retry-After"))
	require.Equal(t, "360", send(h, get("/", "X-Key", "much")).Header.Get("Retry-After"))
}

// TestOverrideAddresses: an address means the client that it belongs to, in any spelling.
func TestOverrideAddresses(t *testing.T) {
	h := limited(t, with(limits(window(1, "overrides", []any{
		options{"key": "192.0.2.1", "requests": 2},
		options{"key": "::ffff:192.0.2.2", "requests": 3},
		options{"key": "2001:DB8:0:1:0:0:0:9", "requests": 4},
	})), "ipStrategy", options{"ipv6Subnet": 56}))
	for peer, want := range map[string]string{
		alice: "2", bob: "3", "192.0.2.3:1": "1", "[2001:db8:0:ff::1]:1": "4", "[2001:db8:0:100::1]:1": "1",
	} {
		require.Equal(t, want, send(h, from(peer, get("/"))).Header.Get("X-Ratelimit-Limit"), peer)
	}
}

func TestOverrideOfSeveralParts(t *testing.T) {
	h := limited(t, limits(window(1, "key", []any{"host", "ip", "lower:header:X-Key"}, "overrides", []any{
		options{"key": []any{"Example.COM", "2001:db8::1", "GOLD"}, "requests": 5},
		options{"key": "example.org, 192.0.2.1, silver", "requests": 6},
	})))
	limitOf := func(target, peer, key string) string {
		return send(h, from(peer, get(target, "X-Key", key))).Header.Get("X-Ratelimit-Limit")
	}
	require.Equal(t, "5", limitOf("http://example.com/", "[2001:db8::2]:1", "Gold"))
	require.Equal(t, "1", limitOf("http://example.org/", "[2001:db8::2]:1", "Gold"))
	require.Equal(t, "6", limitOf("http://example.org/", alice, "SILVER"))
	require.Equal(t, "1", limitOf("http://example.org/", bob, "SILVER"))
}

// TestOverrideComesAndGoes: the counter stays when the numbers of its key change.
func TestOverrideComesAndGoes(t *testing.T) {
	middleware := fresh(t)
	plain := limits(window(2, "key", "header:X-Key"))
	raised := limits(window(2, "key", "header:X-Key", "overrides", options{"key": "gold", "requests": 4}))
	freed := limits(window(2, "key", "header:X-Key", "overrides", options{"key": "gold", "unlimited": true}))
	gold := func(o options, count int) []int {
		return statuses(named(t, o, middleware), count, alice, "X-Key", "gold")
	}
	require.Equal(t, []int{200, 200, 429}, gold(plain, 3))
	require.Equal(t, []int{200, 200, 429}, gold(raised, 3))
	require.Equal(t, []int{429}, gold(plain, 1))
	require.Equal(t, []int{200, 200, 200}, gold(freed, 3))
	require.Equal(t, []int{200}, gold(plain, 1), "what was counted is forgiven with the limit")
}

func TestOverrideMistakes(t *testing.T) {
	for _, row := range []struct {
		override options
		want     string
	}{
		{options{"requests": 5}, `limits[0].overrides[0].key: "" does not have one value for each part of the limit's key; write a list of 1`},
		{options{"key": "a,b", "requests": 5}, `limits[0].overrides[0].key: "a,b" does not have one value for each part of the limit's key; write a list of 1`},
		{options{"key": "here", "requests": 5}, `limits[0].overrides[0].key: "here" is not an address; write one such as 192.0.2.1`},
		{options{"key": "10.0.0.0/8", "requests": 5}, `limits[0].overrides[0].key: "10.0.0.0/8" is not an address; write one such as 192.0.2.1`},
		{options{"key": "192.0.2.1"}, `limits[0].overrides[0] changes nothing; write other numbers, such as requests: 1000, or unlimited: true`},
		{options{"key": "192.0.2.1", "unlimited": false}, `limits[0].overrides[0] changes nothing; write other numbers, such as requests: 1000, or unlimited: true`},
		{options{"key": "192.0.2.1", "unlimited": "never"}, `limits[0].overrides[0].unlimited: "never" is neither true nor false; write true or false`},
		{options{"key": "192.0.2.1", "unlimited": true, "window": "1h"}, `limits[0].overrides[0] has both unlimited and window; keep one`},
		{options{"key": "192.0.2.1", "average": 5}, `limits[0].overrides[0] has both average (of a token bucket) and requests (of a fixed window); keep one, or write two limits`},
		{options{"key": "192.0.2.1", "requests": 0}, `limits[0].overrides[0].requests: "0" must be more than 0; write a whole number, such as 100`},
		{options{"key": "192.0.2.1", "request": 5}, `limits[0].overrides[0].request: there is no such option; did you mean requests?`},
	} {
		require.Equal(t, "sluice: "+row.want, mistake(t, limits(window(1, "overrides", []any{row.override}))))
	}
	one := options{"key": "2001:db8::1", "requests": 5}
	same := options{"key": "2001:db8::2", "requests": 6} // the same /64
	require.Equal(t, `sluice: limits[0].overrides[1].key: "2001:db8::2" has an override already; write one override for each key`,
		mistake(t, limits(window(1, "overrides", []any{one, same}))))
}
