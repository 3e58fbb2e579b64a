package sluice_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Limits that count and report, and refuse nothing.

func TestDryRunOfAll(t *testing.T) {
	for name, o := range map[string]options{
		"short form": {"average": 2, "period": "24h", "dryRun": true},
		"limits":     with(limits(window(2)), "dryRun", "true"),
		"each limit": limits(window(2, "dryRun", 1)),
		"all of one": with(limits(window(2, "dryRun", false)), "dryRun", true),
	} {
		h := limited(t, o)
		for i := 0; i < 4; i++ {
			response := send(h, get("/"))
			require.Equal(t, 200, response.StatusCode, name)
			require.Equal(t, "yes", response.Header.Get("X-Service"), name)
			require.Empty(t, response.Header.Get("Retry-After"), name)
			for _, field := range []string{"Limit", "Remaining", "Reset"} {
				require.Empty(t, response.Header.Get("X-Ratelimit-"+field), "%s: a client must not heed what is not enforced", name)
			}
			report := timeless(response.Header.Get("X-Ratelimit-Dry-Run"))
			if i < 2 {
				require.Empty(t, report, name)
			} else {
				require.Equal(t, `"limit-1";r=0;t=T`, report, name)
			}
		}
	}
}

// TestDryRunOfOneLimit: the others are enforced, and alone decide what is charged.
func TestDryRunOfOneLimit(t *testing.T) {
	h := limited(t, with(limits(
		window(3, "name", "enforced"),
		window(1, "name", "tried", "dryRun", true),
		window(2, "name", "tried-too", "dryRun", true),
	), "headers", "x-ratelimit, ietf"))
	for i, want := range []struct {
		status       int
		left, report string
	}{
		{200, "2", ""},
		{200, "1", `"tried";r=0;t=T`},
		{200, "0", `"tried";r=0;t=T, "tried-too";r=0;t=T`},
		{429, "0", `"tried";r=0;t=T, "tried-too";r=0;t=T`},
	} {
		response := send(h, get("/"))
		require.Equal(t, want.status, response.StatusCode, i)
		require.Equal(t, "3", response.Header.Get("X-Ratelimit-Limit"), i)
		require.Equal(t, want.left, response.Header.Get("X-Ratelimit-Remaining"), i)
		require.Equal(t, want.report, timeless(response.Header.Get("X-Ratelimit-Dry-Run")), i)
		require.Equal(t, `"enforced";q=3;w=86400`, response.Header.Get("Ratelimit-Policy"), i)
		require.NotContains(t, response.Header.Get("Ratelimit"), "tried", i)
	}
}

// TestDryRunChargesWhatItWouldHave: a request that an enforced limit refuses is not charged to one in dry run, and
// one that the dry run would have refused is not charged to it.
func TestDryRunChargesWhatItWouldHave(t *testing.T) {
	h := limited(t, limits(
		window(1, "name", "enforced", "key", "path"),
		window(3, "name", "tried", "key", "global", "dryRun", true, "costs", options{"match": options{"methods": "POST"}, "cost": 2}),
	))
	require.Equal(t, 200, send(h, get("/a")).StatusCode) // one of three
	for i := 0; i < 5; i++ {
		refusal := send(h, get("/a"))
		require.Equal(t, 429, refusal.StatusCode)
		require.Empty(t, refusal.Header.Get("X-Ratelimit-Dry-Run"), "there is room")
	}
	require.Empty(t, send(h, get("/b")).Header.Get("X-Ratelimit-Dry-Run")) // two of three
	require.NotEmpty(t, send(h, post("/c", "")).Header.Get("X-Ratelimit-Dry-Run"))
	require.Empty(t, send(h, get("/d")).Header.Get("X-Ratelimit-Dry-Run"), "the third") // three of three
	require.NotEmpty(t, send(h, get("/e")).Header.Get("X-Ratelimit-Dry-Run"))
}

// TestDryRunKeepsTheCounters: enforcing a limit begins where its dry run left off.
func TestDryRunKeepsTheCounters(t *testing.T) {
	middleware := fresh(t)
	require.Equal(t, []int{200, 200}, statuses(named(t, limits(window(3, "dryRun", true)), middleware), 2, alice))
	require.Equal(t, []int{200, 429}, statuses(named(t, limits(window(3)), middleware), 2, alice))
}

// TestDryRunOfMissingKeys refuses nothing either.
func TestDryRunOfMissingKeys(t *testing.T) {
	h := limited(t, limits(window(1, "key", "header:X-Key", "onMissingKey", "reject", "dryRun", true)))
	require.Equal(t, []int{200, 200, 200}, statuses(h, 3, alice))
}

func TestDryRunMistakes(t *testing.T) {
	require.Equal(t, `sluice: dryRun: "yes" is neither true nor false; write true or false`, mistake(t, options{"average": 1, "dryRun": "yes"}))
	require.Equal(t, `sluice: limits[0].dryRun: "2" is neither true nor false; write true or false`, mistake(t, limits(window(1, "dryRun", 2))))
}
