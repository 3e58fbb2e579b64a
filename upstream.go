package sluice

import (
	"net/http"
	"strings"
)

// The rate-limit headers of the service behind, where it sends some of its own. Traefik adds them to ours, and the
// client gets both; `upstreamHeaders: replace` drops them. That takes a ResponseWriter of our own, whose Flush and
// Hijack nobody sees from outside the interpreter, so requests for a stream do without it.

// isStream tells requests whose response may be a stream or take over the connection.
func isStream(req *http.Request) bool {
	header := req.Header
	return header["Upgrade"] != nil || req.Method == http.MethodConnect || isGRPC(req) ||
		strings.Contains(strings.ToLower(strings.Join(header["Accept"], ",")), "text/event-stream")
}

// replacing is a ResponseWriter that puts the rate-limit fields back as they were when it was made, at the moment the
// header is sent.
type replacing struct {
	rw    http.ResponseWriter
	ours  http.Header
	wrote bool
}

// rateLimitFields are the fields that replacing looks after.
var rateLimitFields = []string{
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
	"Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset",
}

func newReplacing(rw http.ResponseWriter) *replacing {
	ours := http.Header{}
	for _, name := range rateLimitFields {
		if values := rw.Header()[name]; values != nil {
			ours[name] = values
		}
	}
	return &replacing{rw: rw, ours: ours}
}

func (r *replacing) Header() http.Header { return r.rw.Header() }

func (r *replacing) WriteHeader(status int) {
	if !r.wrote {
		header := r.rw.Header()
		for name, values := range r.ours {
			header[name] = values
		}
		r.wrote = status >= 200 || status == http.StatusSwitchingProtocols
	}
	r.rw.WriteHeader(status)
}

func (r *replacing) Write(body []byte) (int, error) {
	if !r.wrote {
		r.WriteHeader(http.StatusOK)
	}
	return r.rw.Write(body)
}
