package sluice

import (
	"net/http"
	"strconv"
	"strings"
)

// Rate-limit header fields. They are set by assignment to the map, under names in canonical form and with values that
// all responses share: the proxy behind adds lines of its own to a list, it never writes into a value.

// The styles of headers, which may be combined.
type headerStyles struct {
	xRateLimit bool // X-RateLimit-Limit, -Remaining, -Reset, as GitHub and many others have them
	ietf       bool // draft-ietf-httpapi-ratelimit-headers-11
	draft06    bool // draft-ietf-httpapi-ratelimit-headers-06
}

// writeHeaders tells the client where it stands with the limits that are enforced, and the operator what those in dry
// run would have done.
func writeHeaders(header http.Header, r *rules, charges []*charge, refusal *charge) {
	shown := refusal
	if shown == nil && !r.several && len(charges) == 1 {
		shown = charges[0]
	} else if shown == nil {
		shown = shownCharge(charges, nil)
	}
	if r.styles.xRateLimit && shown != nil {
		header["X-Ratelimit-Limit"] = shown.policy.limitHeader
		header["X-Ratelimit-Remaining"] = wholeNumber(shown.left)
		header["X-Ratelimit-Reset"] = shown.reset
	}
	if r.details {
		writeDetails(header, r, charges, shown)
	}
}

// writeDetails writes the fields that tell of every limit.
func writeDetails(header http.Header, r *rules, charges []*charge, shown *charge) {
	if r.styles.draft06 && shown != nil {
		writeDraft06(header, charges, shown)
	}
	if r.styles.ietf && shown != nil {
		writeIETF(header, charges)
	}
	if r.dryRun {
		writeDryRun(header, charges)
	}
}

// isShown: a client has no business with limits in dry run, nor with one that is lifted for it.
func isShown(ch *charge) bool { return !ch.limit.dryRun && ch.policy.kind != unlimited }

// writeDraft06 writes the fields of the 6th draft: RateLimit-Limit, -Remaining, -Reset in seconds from now, and
// RateLimit-Policy.
func writeDraft06(header http.Header, charges []*charge, shown *charge) {
	header["Ratelimit-Limit"] = shown.policy.limitHeader
	header["Ratelimit-Remaining"] = wholeNumber(shown.left)
	header["Ratelimit-Reset"] = wholeNumber(secondsToReset(shown))
	var policies []string
	for _, ch := range charges {
		if isShown(ch) {
			policies = append(policies, ch.policy.draft06Item)
		}
	}
	header["Ratelimit-Policy"] = []string{strings.Join(policies, ", ")}
}

// writeIETF writes the fields of the 11th draft, lists of structured-field items (RFC 9651), one a limit. Their
// parameters might yet be renamed: ietfPolicyItem and ietfStateItem are the only places that know them.
func writeIETF(header http.Header, charges []*charge) {
	var policies, states []string
	for _, ch := range charges {
		if isShown(ch) {
			policies = append(policies, ch.policy.ietfItem)
			states = append(states, ietfStateItem(ch))
		}
	}
	header["Ratelimit-Policy"] = []string{strings.Join(policies, ", ")}
	header["Ratelimit"] = []string{strings.Join(states, ", ")}
}

// ietfPolicyItem is a policy as RateLimit-Policy shows it: quota and, in seconds rounded up, the window; of a bucket
// that is the time in which it fills.
func ietfPolicyItem(name string, p *policy) string {
	return `"` + name + `";q=` + strconv.FormatInt(p.size, 10) + `;w=` + strconv.FormatInt(wholeSeconds(p.full), 10)
}

// draft06Item is a policy as RateLimit-Policy showed it in the 6th draft.
func draft06Item(p *policy) string {
	return strconv.FormatInt(p.size, 10) + ";w=" + strconv.FormatInt(wholeSeconds(p.full), 10)
}

// ietfStateItem is where a key stands as RateLimit shows it: requests remaining, and the seconds until there are
// more.
func ietfStateItem(ch *charge) string {
	return `"` + ch.limit.name + `";r=` + strconv.FormatInt(ch.left, 10) + `;t=` + strconv.FormatInt(secondsToReset(ch), 10)
}

// writeDryRun reports the limits in dry run that had no room, in the form of RateLimit.
func writeDryRun(header http.Header, charges []*charge) {
	var states []string
	for _, ch := range charges {
		if ch.limit.dryRun && ch.wait > 0 {
			states = append(states, ietfStateItem(ch))
		}
	}
	if states != nil {
		header["X-Ratelimit-Dry-Run"] = []string{strings.Join(states, ", ")}
	}
}

// secondsToReset is rounded up: a client that came a moment too early would be refused.
func secondsToReset(ch *charge) int64 {
	if ch.wait > ch.next {
		return wholeSeconds(ch.wait)
	}
	return wholeSeconds(ch.next)
}

// wholeSeconds is nanoseconds as seconds, rounded up.
func wholeSeconds(nanoseconds int64) int64 { return (nanoseconds + second - 1) / second }

// smallNumbers has the header value of every number below its length.
var smallNumbers = numberHeaders(smallNumberCount)

const smallNumberCount = 10_000

func numberHeaders(count int) [][]string {
	var headers [][]string
	for n := 0; n < count; n++ {
		headers = append(headers, []string{strconv.Itoa(n)})
	}
	return headers
}

// wholeNumber is a number, 0 or more, as a header value.
func wholeNumber(n int64) []string {
	if n < smallNumberCount {
		return smallNumbers[n]
	}
	return []string{strconv.FormatInt(n, 10)}
}
