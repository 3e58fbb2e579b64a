package sluice_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What counters outlive: routers, reloads, changes of the options.

func TestHandlersOfOneNameShareCounters(t *testing.T) {
	for name, o := range everyAlgorithm {
		middleware := fresh(t)
		first, second := named(t, o, middleware), named(t, o, middleware)
		require.Equal(t, []int{200}, statuses(first, 1, alice), name)
		require.Equal(t, []int{200, 429}, statuses(second, 2, alice), name)
		require.Equal(t, []int{429}, statuses(first, 1, alice), name)
		require.Equal(t, []int{200, 200, 429}, statuses(limited(t, o), 3, alice), "%s: another middleware has counters of its own", name)
	}
}

func TestCountersOutliveChanges(t *testing.T) {
	middleware := fresh(t)
	limit := func(o options) options { return options{"limits": []any{o}} }
	old := named(t, limit(options{"requests": 3, "window": "1h"}), middleware)
	require.Equal(t, []int{200, 200}, statuses(old, 2, alice))

	other := limit(options{"requests": 3, "window": "1h"})
	other["headers"] = "none"
	require.Equal(t, []int{200, 429}, statuses(named(t, other, middleware), 2, alice), "another option changed")

	larger := named(t, limit(options{"requests": 5, "window": "1h"}), middleware)
	require.Equal(t, []int{200, 200, 429}, statuses(larger, 3, alice), "larger by two")
	require.Equal(t, []int{429}, statuses(old, 1, alice), "the old handlers, still there for a moment, count the same")

	smaller := named(t, limit(options{"requests": 1, "window": "1h"}), middleware)
	require.Equal(t, []int{429}, statuses(smaller, 1, alice))
	require.Equal(t, []int{200, 429}, statuses(smaller, 2, bob))

	broken, err := build(limit(options{"requests": 0, "window": "1h"}), service, middleware)
	require.Error(t, err)
	require.Nil(t, broken)
	require.Equal(t, []int{429}, statuses(smaller, 1, alice), "a mistake changes nothing")

	require.Equal(t, []int{200}, statuses(named(t, limit(options{"average": 1, "period": "1h"}), middleware), 1, alice), "another algorithm, another limit")
}

// TestBucketOutlivesChanges: what was spent stays spent.
func TestBucketOutlivesChanges(t *testing.T) {
	middleware := fresh(t)
	require.Equal(t, []int{200, 200, 200}, statuses(named(t, options{"average": 1, "period": "24h", "burst": 4}, middleware), 3, alice))
	require.Equal(t, []int{200, 200, 429}, statuses(named(t, options{"average": 10, "period": "240h", "burst": 5}, middleware), 3, alice))
	require.Equal(t, []int{429}, statuses(named(t, options{"average": 1, "period": "24h", "burst": 2}, middleware), 1, alice))
	require.Equal(t, []int{200, 429}, statuses(named(t, options{"average": 1, "period": "24h", "burst": 3}, middleware), 2, alice), "the smaller bucket forgave")
}

// TestOldHandlersServeNewLimits: Traefik's old routers serve on for a moment after the new ones are built, by the new
// numbers, whatever these are.
func TestOldHandlersServeNewLimits(t *testing.T) {
	bucket := options{"average": 10, "period": "24h", "key": "ip"}
	for name, more := range map[string]options{
		"larger than headers that are ready": {"burst": 5000},
		"interval":                           {"refill": "interval"},
		"override":                           {"overrides": []any{options{"key": "192.0.2.1", "burst": 2000}}},
		"unlimited":                          {"overrides": []any{options{"key": "192.0.2.1", "unlimited": true}}},
	} {
		for _, warm := range []bool{true, false} {
			middleware := fresh(t)
			old := named(t, options{"limits": []any{bucket}}, middleware)
			if warm {
				require.Equal(t, []int{200, 200, 200}, statuses(old, 3, alice))
			}
			changed := named(t, options{"limits": []any{merged(bucket, more)}}, middleware)
			require.Equal(t, []int{200, 200, 200}, statuses(old, 3, alice), name)
			require.Equal(t, []int{200}, statuses(changed, 1, alice), name)
			if name == "interval" {
				require.Contains(t, statuses(old, 8, alice), http.StatusTooManyRequests)
				require.Equal(t, []int{429}, statuses(changed, 1, alice))
			}
		}
	}
}

// TestEveryRefusalIsTheSame: however many there are, and whatever old handlers still refuse by numbers that have
// changed.
func TestEveryRefusalIsTheSame(t *testing.T) {
	middleware := fresh(t)
	old := named(t, options{"average": 1, "period": "24h", "burst": 2}, middleware)
	require.Equal(t, []int{200, 200, 429}, statuses(old, 3, alice))
	h := named(t, options{"average": 1, "period": "24h", "burst": 3}, middleware)
	require.Equal(t, []int{200}, statuses(old, 1, alice))
	for i := 0; i < 200; i++ {
		require.Equal(t, http.StatusTooManyRequests, send(old, request(alice)).StatusCode)
		refusal := send(h, request(alice))
		require.Equal(t, http.StatusTooManyRequests, refusal.StatusCode)
		require.Equal(t, "3", refusal.Header.Get("X-Ratelimit-Limit"), "refusal %d", i)
		require.Equal(t, "0", refusal.Header.Get("X-Ratelimit-Remaining"))
		after, err := strconv.Atoi(refusal.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.InDelta(t, 86_400, after, 2)
		reset, err := strconv.ParseInt(refusal.Header.Get("X-Ratelimit-Reset"), 10, 64)
		require.NoError(t, err)
		require.InDelta(t, time.Now().Unix()+86_400, reset, 3)
		require.Equal(t, "application/problem+json", refusal.Header.Get("Content-Type"))
		var problem map[string]any
		require.NoError(t, json.NewDecoder(refusal.Body).Decode(&problem))
		require.Equal(t, []any{"limit-1"}, problem["violated-policies"])
	}
}

// TestDroppedKeysStartAnew: a key that a full table has dropped is a new one, and nothing remembers what it had left.
func TestDroppedKeysStartAnew(t *testing.T) {
	for name, o := range everyAlgorithm {
		h := limited(t, merged(o, options{"maxKeys": 1}))
		require.Equal(t, []int{200}, statuses(h, 1, alice), name)
		for i := 0; i < 50; i++ { // often enough for every way of refusing
			require.Equal(t, []int{200, 200, 429, 429, 429}, statuses(h, 5, bob), "%s, round %d", name, i)
			require.Equal(t, []int{200, 200, 429, 429, 429}, statuses(h, 5, alice), "%s, round %d", name, i)
		}
	}
}
