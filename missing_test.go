package sluice_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// What becomes of a request that lacks a part of a limit's key.

// TestMissingKeyCountsByAddress is the default: whoever leaves his key out gets no further than one address does, and
// not into the counter of anybody who has a key.
func TestMissingKeyCountsByAddress(t *testing.T) {
	for _, answer := range []string{"", "ip"} {
		h := limited(t, limits(window(1, "key", "header:X-Key", "onMissingKey", answer)))
		require.Equal(t, []int{200, 429}, statuses(h, 2, alice))
		require.Equal(t, []int{200, 429}, statuses(h, 2, bob))
		require.Equal(t, 429, send(h, get("/", "X-Key", "")).StatusCode)
		require.Equal(t, 429, send(h, get("/", "X-Key", "a", "X-Key", "b")).StatusCode)
		require.Equal(t, 200, send(h, get("/", "X-Key", "192.0.2.1")).StatusCode, "a key that reads like an address is another")
		require.Equal(t, 200, send(h, get("/", "X-Key", "@192.0.2.1")).StatusCode)
	}
}

func TestMissingKeySkips(t *testing.T) {
	h := limited(t, limits(window(1, "name", "by-key", "key", "header:X-Key", "onMissingKey", "skip"), window(5)))
	require.Equal(t, "4", send(h, get("/")).Header.Get("X-Ratelimit-Remaining"), "the other limit counts it")
	require.Equal(t, 200, send(h, get("/")).StatusCode)
	require.Equal(t, 200, send(h, get("/", "X-Key", "a")).StatusCode)
	require.Equal(t, 429, send(h, get("/", "X-Key", "a")).StatusCode)

	alone := limited(t, limits(window(1, "key", "header:X-Key", "onMissingKey", "skip")))
	require.False(t, isCounted(alone, get("/")))
}

func TestMissingKeyShares(t *testing.T) {
	h := limited(t, limits(window(2, "key", "header:X-Key", "onMissingKey", "share")))
	require.Equal(t, []int{200}, statuses(h, 1, alice))
	require.Equal(t, []int{200, 429}, statuses(h, 2, bob))
	require.Equal(t, 200, send(h, get("/", "X-Key", "@")).StatusCode, "a key that reads like none is another")
}

// TestMissingKeyRejects: no time heals that, so there is no Retry-After, and nobody is charged.
func TestMissingKeyRejects(t *testing.T) {
	h := limited(t, limits(
		window(1, "name", "all"),
		window(5, "name", "by-key", "key", []any{"header:X-Key", "cookie:sid"}, "onMissingKey", "reject"),
	))
	for _, headers := range [][]string{nil, {"X-Key", "a"}, {"Cookie", "sid=a"}} {
		response := send(h, get("/", headers...))
		require.Equal(t, 400, response.StatusCode)
		require.Empty(t, response.Header.Get("Retry-After"))
		require.Equal(t, "application/problem+json", response.Header.Get("Content-Type"))
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.JSONEq(t, `{"title":"Bad Request","status":400,"detail":"This request lacks the header X-Key or the cookie sid."}`, string(body))
	}
	require.Equal(t, 200, send(h, get("/", "X-Key", "a", "Cookie", "sid=a")).StatusCode, "the limit of one was not charged")

	grpc := send(h, get("/", "Content-Type", "application/grpc"))
	require.Equal(t, 200, grpc.StatusCode)
	require.Equal(t, "3", grpc.Header.Get("Grpc-Status"), "INVALID_ARGUMENT")
	require.Equal(t, "This%20request%20lacks%20the%20header%20X-Key%20or%20the%20cookie%20sid.", grpc.Header.Get("Grpc-Message"))
}

// TestMissingPart: one part that is missing is a missing key, and the parts that are there make no difference.
func TestMissingPart(t *testing.T) {
	h := limited(t, limits(window(1, "key", []any{"path", "header:X-Key"})))
	require.Equal(t, 200, send(h, get("/a")).StatusCode)
	require.Equal(t, 429, send(h, get("/b")).StatusCode)
	require.Equal(t, 200, send(h, get("/a", "X-Key", "k")).StatusCode)
	require.Equal(t, 200, send(h, get("/b", "X-Key", "k")).StatusCode)
	require.Equal(t, 429, send(h, get("/b", "X-Key", "k")).StatusCode)
}

// TestWhatIsNeverMissing: some parts every request has.
func TestWhatIsNeverMissing(t *testing.T) {
	for _, key := range []string{"ip", "host", "method", "path", "global"} {
		h := limited(t, limits(window(1, "key", []any{key, "global"}, "onMissingKey", "reject")))
		require.Equal(t, 200, send(h, from("@", ask("GET", "/", ""))).StatusCode, key)
	}
}

// TestPartsNeverMix: different values of several parts are never one key.
func TestPartsNeverMix(t *testing.T) {
	key := []any{"header:X-A", "header:X-B"}
	all := [][2]string{{"a", "bc"}, {"ab", "c"}, {"abc", "-"}, {"a:b", "c"}, {"a", "b:c"}, {"a|b", "c"}, {"a", "b|c"}, {"1:a", "2:bc"}, {"a2:bc", "x"}, {"A", "bc"}, {"bc", "a"}}
	for i, one := range all {
		for j, other := range all {
			same := share(t, key, get("/", "X-A", one[0], "X-B", one[1]), get("/", "X-A", other[0], "X-B", other[1]))
			require.Equal(t, i == j, same, "%v and %v", one, other)
		}
	}
}

// TestOtherKeyOtherCounters: a limit that counts by another key is another limit, whatever its name.
func TestOtherKeyOtherCounters(t *testing.T) {
	middleware := fresh(t)
	require.Equal(t, []int{200, 429}, statuses(named(t, limits(window(1)), middleware), 2, alice))
	require.Equal(t, []int{200, 429}, statuses(named(t, limits(window(1, "key", "global")), middleware), 2, alice))
	require.Equal(t, []int{429}, statuses(named(t, limits(window(1)), middleware), 1, alice))
}
