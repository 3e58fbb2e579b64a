package sluice_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a request takes.

func TestCost(t *testing.T) {
	bucket := options{"average": 10, "period": "24h", "cost": 3}
	for name, o := range map[string]options{
		"window": limits(window(10, "cost", "3")), "bucket": limits(bucket), "interval": limits(with(bucket, "refill", "interval")),
	} {
		h := limited(t, o)
		for _, want := range []string{"7", "4", "1"} {
			response := send(h, get("/"))
			require.Equal(t, 200, response.StatusCode, name)
			require.Equal(t, want, response.Header.Get("X-Ratelimit-Remaining"), name)
		}
		for i := 0; i < 2; i++ { // one is left, and stays
			refusal := send(h, get("/"))
			require.Equal(t, 429, refusal.StatusCode, name)
			require.Equal(t, "1", refusal.Header.Get("X-Ratelimit-Remaining"), name)
		}
	}
}

// TestCosts: the first match counts, and cost is for the rest.
func TestCosts(t *testing.T) {
	h := limited(t, limits(window(100, "cost", 2, "costs", []any{
		options{"match": options{"methods": "POST", "paths": "/search"}, "cost": 50},
		options{"match": options{"methods": "POST"}, "cost": 10},
		options{"match": options{"paths": "/free"}, "cost": 0},
		options{"match": options{"paths": "/free"}, "cost": 90},
	})))
	left := func(method, path string) string {
		return send(h, ask(method, path, "")).Header.Get("X-Ratelimit-Remaining")
	}
	require.Equal(t, "98", left("GET", "/"))
	require.Equal(t, "88", left("POST", "/"))
	require.Equal(t, "38", left("POST", "/search"))
	require.Equal(t, "36", left("GET", "/search"))
	require.Equal(t, "36", left("GET", "/free"))
	require.Equal(t, "26", left("POST", "/free"), "a free path, but an earlier match")
}

// TestCostOfNothing passes even when nothing is left.
func TestCostOfNothing(t *testing.T) {
	h := limited(t, limits(window(1, "costs", options{"match": options{"methods": "HEAD"}, "cost": "0"})))
	free := func() int { return send(h, ask("HEAD", "/", "")).StatusCode }
	require.Equal(t, 200, free())
	require.Equal(t, []int{200, 429}, statuses(h, 2, alice))
	require.Equal(t, 200, free())

	always := limited(t, limits(window(1, "cost", "000")))
	require.Equal(t, []int{200, 200, 200}, statuses(always, 3, alice))
}

// TestRefusedCostsNothing: neither the limit that refuses nor the others are charged.
func TestRefusedCostsNothing(t *testing.T) {
	h := limited(t, limits(
		window(10, "name", "all"),
		window(10, "name", "weighed", "costs", []any{options{"match": options{"methods": "POST"}, "cost": 6}}),
	))
	require.Equal(t, 200, send(h, post("/", "")).StatusCode) // all 9, weighed 4
	for i := 0; i < 20; i++ {
		require.Equal(t, 429, send(h, post("/", "")).StatusCode)
	}
	require.Equal(t, []int{200, 200, 200, 200, 429}, statuses(h, 5, alice))
}

// TestRetryAfterOfACost: it is the time until the same request passes, not until the next token.
func TestRetryAfterOfACost(t *testing.T) {
	h := limited(t, limits(options{"average": 1, "period": "1h", "burst": 10, "costs": options{"match": options{"methods": "POST"}, "cost": 5}}))
	require.Equal(t, 200, send(h, post("/", "")).StatusCode)
	require.Equal(t, 200, send(h, post("/", "")).StatusCode)
	require.Equal(t, "18000", send(h, post("/", "")).Header.Get("Retry-After"))
	require.Equal(t, "3600", send(h, get("/")).Header.Get("Retry-After"))
}

func TestCostMistakes(t *testing.T) {
	any5 := options{"methods": "POST"}
	for _, row := range []struct {
		limit options
		want  string
	}{
		{window(5, "cost", "x"), `limits[0].cost: "x" is not a number; write a whole number, such as 5`},
		{window(5, "cost", -1), `limits[0].cost: "-1" must be 0 or more; write a whole number, such as 5`},
		{window(5, "cost", 0.5), `limits[0].cost: "0.5" must be a whole number; write a whole number, such as 5`},
		{window(5, "cost", 6), `limits[0].cost: "6" is more than a bucket or window of this limit holds, so that such a request could never pass; write at most 5, or raise burst or requests`},
		{window(5, "cost", 3, "overrides", options{"key": "192.0.2.1", "requests": 2}), `limits[0].cost: "3" is more than a bucket or window of this limit holds, so that such a request could never pass; write at most 2, or raise burst or requests`},
		{window(5, "costs", options{"match": any5, "cost": 6}), `limits[0].costs[0].cost: "6" is more than a bucket or window of this limit holds, so that such a request could never pass; write at most 5, or raise burst or requests`},
		{window(5, "costs", options{"match": any5}), `limits[0].costs[0].cost is missing; write how many tokens such a request takes, such as 5`},
		{window(5, "costs", options{"match": options{"paths": "x"}, "cost": 1}), `limits[0].costs[0].match.paths: "x" is not a path pattern; write one that begins with /, such as /users/{id} or /files/`},
		{window(5, "costs", options{"price": 1}), `limits[0].costs[0].price: there is no such option; here can stand match, cost`},
	} {
		require.Equal(t, "sluice: "+row.want, mistake(t, limits(row.limit)))
	}
}
