package sluice

import (
	"net/http"
	"strconv"
)

// Rate-limit header fields. They are set by assignment to the map with names in canonical form, and with values that are shared by all
// responses: the proxy behind adds lines of its own to a copy, it never writes into a value.

// smallNumbers has the header value of every number below its length, filled in init.
var smallNumbers [][]string

const smallNumberCount = 1024

func init() {
	for n := 0; n < smallNumberCount; n++ {
		smallNumbers = append(smallNumbers, []string{strconv.Itoa(n)})
	}
}

// wholeNumber is a header value.
func wholeNumber(n int64) []string {
	if n < smallNumberCount {
		return smallNumbers[n]
	}
	return []string{strconv.FormatInt(n, 10)}
}

// writeHeaders tells the client where it stands. The fields hold one value, so they are those of the limit that has the fewest
// requests left, or on a refusal of the one that has longest to wait.
func writeHeaders(header http.Header, r *rules, charges []*charge, refusal *charge) {
	if !r.xRateLimit || len(charges) == 0 {
		return
	}
	shown := refusal
	if shown == nil {
		shown = charges[0]
		for _, ch := range charges {
			if ch.left < shown.left {
				shown = ch
			}
		}
	}
	header["X-Ratelimit-Limit"] = shown.policy.limitHeader
	header["X-Ratelimit-Remaining"] = wholeNumber(shown.left)
	header["X-Ratelimit-Reset"] = shown.reset
}
