package sluice_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"
)

// The exact text of rate-limit header fields.

// fields are those of a response that have to do with limits.
func fields(response *http.Response) map[string][]string {
	all := map[string][]string{}
	for name, values := range response.Header {
		switch name {
		case "X-Service", "Content-Type", "Content-Length", "X-Content-Type-Options":
		default:
			all[name] = values
		}
	}
	return all
}

// requireReset checks a value of X-RateLimit-Reset: Unix seconds, rounded up, that long after a request that was made
// since began.
func requireReset(t *testing.T, began time.Time, after time.Duration, got []string) {
	t.Helper()
	require.Len(t, got, 1)
	reset, err := strconv.ParseInt(got[0], 10, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, reset, began.Add(after).Unix())
	require.LessOrEqual(t, reset, time.Now().Add(after).Unix()+1)
}

// bucketAndWindow is limits of which one or the other decides.
var bucketAndWindow = limits(
	options{"name": "per-ip", "average": 1, "period": "10h", "burst": 3},
	window(5, "name", "daily", "window", "24h"),
)

func TestXRateLimit(t *testing.T) {
	for name, o := range map[string]options{
		"short form": {"average": 3, "period": "30h"},
		"window":     limits(window(3, "window", "10h")),
		"two limits": bucketAndWindow, // the bucket has fewer left
	} {
		h := limited(t, o)
		began := time.Now()
		for _, left := range []string{"2", "1", "0", "0"} {
			response := send(h, get("/"))
			got := fields(response)
			requireReset(t, began, 10*time.Hour, got["X-Ratelimit-Reset"])
			delete(got, "X-Ratelimit-Reset")
			want := map[string][]string{"X-Ratelimit-Limit": {"3"}, "X-Ratelimit-Remaining": {left}}
			if response.StatusCode == http.StatusTooManyRequests {
				want["Retry-After"] = got["Retry-After"]
				require.Regexp(t, `^3(6000|59\d\d)$`, got["Retry-After"][0], name)
			}
			require.Equal(t, want, got, name)
		}
	}
}

// TestDraft06 is what draft-ietf-httpapi-ratelimit-headers-06 says: seconds from now, and the policy of each limit.
func TestDraft06(t *testing.T) {
	h := limited(t, with(bucketAndWindow, "headers", "draft-06"))
	for _, want := range []map[string]string{
		{"Limit": "3", "Remaining": "2"}, {"Limit": "3", "Remaining": "1"}, {"Limit": "3", "Remaining": "0"}, {"Limit": "3", "Remaining": "0"},
	} {
		response := send(h, get("/"))
		for field, value := range want {
			require.Equal(t, []string{value}, response.Header["Ratelimit-"+field], field)
		}
		require.Equal(t, []string{"3;w=108000, 5;w=86400"}, response.Header["Ratelimit-Policy"])
		require.Regexp(t, `^3(6000|59\d\d)$`, response.Header.Get("Ratelimit-Reset"))
		require.Empty(t, response.Header["Ratelimit"])
		require.Empty(t, response.Header["X-Ratelimit-Limit"])
		if response.StatusCode == http.StatusTooManyRequests {
			require.Equal(t, response.Header["Ratelimit-Reset"], response.Header["Retry-After"])
		}
	}
}

// TestIETF is what draft-ietf-httpapi-ratelimit-headers-11 says: a list of items, one a limit.
func TestIETF(t *testing.T) {
	h := limited(t, with(bucketAndWindow, "headers", []any{"ietf"}))
	for _, want := range []string{
		`"per-ip";r=2;t=T, "daily";r=4;t=T`, `"per-ip";r=1;t=T, "daily";r=3;t=T`, `"per-ip";r=0;t=T, "daily";r=2;t=T`, `"per-ip";r=0;t=T, "daily";r=2;t=T`,
	} {
		response := send(h, get("/"))
		require.Equal(t, []string{`"per-ip";q=3;w=108000, "daily";q=5;w=86400`}, response.Header["Ratelimit-Policy"])
		require.Len(t, response.Header["Ratelimit"], 1)
		require.Equal(t, want, timeless(response.Header["Ratelimit"][0]))
		require.Regexp(t, `^"per-ip";r=\d;t=3(6000|59\d\d), "daily";r=\d;t=8(6400|63\d\d)$`, response.Header["Ratelimit"][0])
		require.Empty(t, response.Header["Ratelimit-Limit"])
		require.Empty(t, response.Header["X-Ratelimit-Limit"])
	}
}

// TestIETFIsStructured parses the fields as RFC 9651 says, with somebody else's parser.
func TestIETFIsStructured(t *testing.T) {
	const most = 999_999_999_999_999 // a structured field's largest integer
	for name, o := range map[string]options{
		"small":     limits(options{"average": 0.000001, "period": "1us", "name": "a-1"}),
		"fast":      limits(options{"average": 1000, "period": "1us", "burst": "1000000000000"}),
		"large":     limits(options{"average": 1, "burst": 2_000_000_000}),
		"long":      limits(window(1_000_000_000_000, "window", "87600h")),
		"several":   limits(window(1), options{"average": 1, "name": "0"}, window(3, "name", "----")),
		"a bucket":  {"average": 10},
		"dry run":   with(limits(window(2, "name", "tried", "dryRun", true), window(1)), "dryRun", false),
		"unlimited": limits(window(1), window(1, "name", "free", "overrides", options{"key": "192.0.2.1", "unlimited": true})),
	} {
		h := limited(t, with(o, "headers", "ietf"))
		for i := 0; i < 3; i++ {
			header := send(h, get("/")).Header
			for field, parameters := range map[string][]string{"Ratelimit-Policy": {"q", "w"}, "Ratelimit": {"r", "t"}, "X-Ratelimit-Dry-Run": {"r", "t"}} {
				if header[field] == nil {
					require.Equal(t, "X-Ratelimit-Dry-Run", field)
					continue
				}
				list, err := httpsfv.UnmarshalList(header[field])
				require.NoError(t, err, "%s: %s", name, header[field])
				for _, member := range list {
					item, ok := member.(httpsfv.Item)
					require.True(t, ok)
					require.IsType(t, "", item.Value, "a name is a string")
					require.Equal(t, parameters, item.Params.Names())
					for _, parameter := range parameters {
						value, _ := item.Params.Get(parameter)
						require.IsType(t, int64(0), value)
						require.GreaterOrEqual(t, value, int64(0), "%s: %s", name, header[field])
						require.LessOrEqual(t, value, int64(most), "%s: %s", name, header[field])
					}
				}
				again, err := httpsfv.Marshal(list)
				require.NoError(t, err)
				require.Equal(t, header[field], []string{again}, "it is in the form that RFC 9651 prescribes for senders")
			}
		}
	}
}

// TestStylesTogether: a field is in the response once, whatever else is.
func TestStylesTogether(t *testing.T) {
	for styles, want := range map[string][]string{
		"":                            {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
		"x-ratelimit, ietf":           {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit", "Ratelimit-Policy"},
		"draft-06,x-ratelimit":        {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "Ratelimit-Policy"},
		" ietf ,, ietf":               {"Ratelimit", "Ratelimit-Policy"},
		"draft-06":                    {"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "Ratelimit-Policy"},
		"none":                        {},
		"x-ratelimit, x-ratelimit, ,": {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	} {
		h := limited(t, with(limits(window(1)), "headers", styles))
		for _, status := range []int{200, 429} {
			response := send(h, get("/"))
			require.Equal(t, status, response.StatusCode)
			var got []string
			for name, values := range fields(response) {
				require.Len(t, values, 1)
				if name != "Retry-After" {
					got = append(got, name)
				}
			}
			require.ElementsMatch(t, want, got, "%q", styles)
		}
	}
}

// TestShownLimit: where there is place for one limit only, it is that with the fewest requests left, and on a refusal
// that with the longest wait.
func TestShownLimit(t *testing.T) {
	h := limited(t, limits(
		window(2, "name", "slow", "window", "48h"),
		window(2, "name", "fast", "window", "1h", "costs", options{"match": options{"methods": "POST"}, "cost": 2}),
		window(9, "name", "large", "window", "96h"),
	))
	shown := func(req *http.Request) string {
		response := send(h, req)
		return response.Header.Get("X-Ratelimit-Limit") + " " + response.Header.Get("X-Ratelimit-Remaining") + " " + response.Header.Get("Retry-After")
	}
	require.Equal(t, "2 1 ", shown(get("/")), "of two with as many left, the first")
	require.Equal(t, "2 1 3600", shown(post("/", "")), "just fast has no room for two")
	require.Equal(t, "2 0 ", shown(get("/")))
	require.Equal(t, "2 0 172800", shown(get("/")), "slow has longest to wait")
}

// TestResetIsNeverTooEarly: with whole seconds each field says when the request will pass, never a moment before.
func TestResetIsNeverTooEarly(t *testing.T) {
	h := limited(t, with(limits(options{"average": 2, "period": "3s", "burst": 1}), "headers", "x-ratelimit, draft-06"))
	began := time.Now()
	require.Equal(t, 200, send(h, get("/")).StatusCode)
	refusal := send(h, get("/"))
	require.Equal(t, 429, refusal.StatusCode)
	require.Contains(t, []string{"1", "2"}, refusal.Header.Get("Retry-After")) // a second and a half, rounded up
	require.Equal(t, refusal.Header.Get("Retry-After"), refusal.Header.Get("Ratelimit-Reset"))
	reset, err := strconv.ParseInt(refusal.Header.Get("X-Ratelimit-Reset"), 10, 64)
	require.NoError(t, err)
	require.False(t, time.Unix(reset, 0).Before(began.Add(1500*time.Millisecond)))
}

func TestHeadersMistakes(t *testing.T) {
	for styles, want := range map[any]string{
		"X-RateLimit":    `headers: "X-RateLimit" is not a style of headers; write x-ratelimit, ietf, draft-06 or none`,
		"draft-11":       `headers: "draft-11" is not a style of headers; write x-ratelimit, ietf, draft-06 or none`,
		"none, ietf":     `headers has none and others; keep one`,
		"ietf, draft-06": `headers has ietf and draft-06, which write RateLimit-Policy in two forms; keep one`,
		true:             `headers: "1" is not a style of headers; write x-ratelimit, ietf, draft-06 or none`,
	} {
		require.Equal(t, "sluice: "+want, mistake(t, options{"average": 1, "headers": styles}))
	}
	require.Equal(t, `sluice: upstreamHeaders: "remove" is neither add nor replace; write add or replace`, mistake(t, options{"average": 1, "upstreamHeaders": "remove"}))
}
