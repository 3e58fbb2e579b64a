package sluice

import (
	"encoding/json"
	"html"
	"math/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// The refusal: a response that the client at hand can read.

// rejection is what an operator wants refusals to be.
type rejection struct {
	custom      bool // something but jitter is not as it is by default
	status      int
	contentType string
	body        string // "": one that suits the client
	headers     []headerMatch
	jitter      int64 // nanoseconds; up to so much is added to Retry-After, so that refused clients do not all come back at once
}

// refuse answers a request for which refusal's limit has no room.
func refuse(rw http.ResponseWriter, req *http.Request, r *rejection, charges []*charge, refusal *charge) {
	seconds := retryAfter(refusal.wait)
	if r.jitter > 0 {
		seconds += rand.Int63n(r.jitter/second + 1)
	}
	after := wholeNumber(seconds)
	rw.Header()["Retry-After"] = after
	if r.custom {
		refuseCustom(rw, req, r, charges, refusal, after[0])
		return
	}
	if req.Header["Content-Type"] != nil && isGRPC(req) {
		refuseGRPC(rw, after[0])
		return
	}
	kind := problemType
	if accept := req.Header["Accept"]; accept != nil && accept[0] != "*/*" {
		kind = preferred(accept)
	}
	respond(rw, req, http.StatusTooManyRequests, kind, quotaBody(kind, http.StatusTooManyRequests, after[0], charges))
}

// refuseCustom is refuse where the operator has said something about it.
func refuseCustom(rw http.ResponseWriter, req *http.Request, r *rejection, charges []*charge, refusal *charge, after string) {
	header := rw.Header()
	fill := strings.NewReplacer(
		"{limit}", strconv.FormatInt(refusal.policy.size, 10),
		"{remaining}", strconv.FormatInt(refusal.left, 10),
		"{reset}", refusal.reset[0],
		"{retryAfter}", after,
		"{policy}", refusal.limit.name)
	for _, extra := range r.headers {
		header[extra.name] = []string{fill.Replace(extra.value)}
	}
	if isGRPC(req) {
		refuseGRPC(rw, after)
		return
	}
	if r.body != "" {
		respond(rw, req, r.status, r.contentType, fill.Replace(r.body))
		return
	}
	kind := r.contentType
	if kind == "" {
		kind = preferred(req.Header["Accept"])
	}
	respond(rw, req, r.status, kind, quotaBody(kind, r.status, after, charges))
}

// quotaBody is the body that a refusal has of itself: by default the problem of
// draft-ietf-httpapi-ratelimit-headers-11, section 6, in the form of RFC 9457. Nothing in it comes from the request,
// and names need no escaping.
func quotaBody(kind string, status int, after string, charges []*charge) string {
	text := "Too many requests. Try again in " + after + " s."
	if kind != problemType {
		return plainBody(kind, "Quota Exceeded", text)
	}
	names := ""
	for _, ch := range charges {
		if ch.wait > 0 && !ch.limit.dryRun {
			names += `,"` + ch.limit.name + `"`
		}
	}
	return `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":` + strconv.Itoa(status) +
		`,"detail":"` + text + `","violated-policies":[` + names[1:] + "]}\n"
}

// plainBody is a text as plain text or as a small page.
func plainBody(kind, title, text string) string {
	if kind != htmlType {
		return text + "\n"
	}
	return "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">" +
		"<title>" + html.EscapeString(title) + "</title>" +
		"<style>:root{color-scheme:light dark}body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem}</style>" +
		"<h1>" + html.EscapeString(title) + "</h1><p>" + html.EscapeString(text) + "</p></html>\n"
}

// refuseMissing answers a request that lacks what a limit counts by, where that is a reason to refuse it. No time
// heals that: there is no Retry-After, and the status says that the request is at fault.
func refuseMissing(rw http.ResponseWriter, req *http.Request, missing *limit) {
	text := "This request lacks " + missing.wants + "."
	refuseOther(rw, req, http.StatusBadRequest, "3", text) // INVALID_ARGUMENT
}

// refuseUnknown answers a request of which nobody knows whether there is room for it, since the shared counters are
// away, where that is a reason to refuse it.
func refuseUnknown(rw http.ResponseWriter, req *http.Request) {
	rw.Header()["Retry-After"] = wholeNumber(1)
	text := "The rate limit cannot be checked at the moment. Try again in 1 s."
	refuseOther(rw, req, http.StatusServiceUnavailable, "14", text) // UNAVAILABLE
}

// refuseOther answers a request that is refused for another reason than a limit's.
func refuseOther(rw http.ResponseWriter, req *http.Request, status int, grpcStatus, text string) {
	if isGRPC(req) {
		sendGRPC(rw, grpcStatus, text)
		return
	}
	title := http.StatusText(status)
	kind := preferred(req.Header["Accept"])
	if kind != problemType {
		respond(rw, req, status, kind, plainBody(kind, title, text))
		return
	}
	body, _ := json.Marshal(map[string]any{"title": title, "status": status, "detail": text})
	respond(rw, req, status, kind, string(body)+"\n")
}

// retryAfter is a wait in nanoseconds as whole seconds, rounded up, at least 1 (RFC 9110, section 10.2.3, knows no
// fractions, and some clients fail on them). After that many seconds the same request passes if nobody else used the
// key.
func retryAfter(wait int64) int64 {
	if wait <= second {
		return 1
	}
	return wholeSeconds(wait)
}

func respond(rw http.ResponseWriter, req *http.Request, status int, contentType, body string) {
	rw.Header()["Content-Type"] = []string{contentType}
	rw.WriteHeader(status)
	if req.Method != "HEAD" {
		_, _ = rw.Write([]byte(body))
	}
}

// The types of body that refusals have of themselves.
const (
	problemType = "application/problem+json"
	plainType   = "text/plain; charset=utf-8"
	htmlType    = "text/html; charset=utf-8"
)

// isGRPC tells gRPC calls. grpc-web is another protocol, whose clients read the HTTP status.
func isGRPC(req *http.Request) bool {
	kind, ok := single(req.Header["Content-Type"])
	return ok && strings.HasPrefix(kind, "application/grpc") && !strings.HasPrefix(kind, "application/grpc-web")
}

// refuseGRPC refuses a gRPC call. after is the value of Retry-After.
func refuseGRPC(rw http.ResponseWriter, after string) {
	rw.Header()["Grpc-Retry-Pushback-Ms"] = []string{after + "000"}
	sendGRPC(rw, "8", "Too many requests. Try again in "+after+" s.") // RESOURCE_EXHAUSTED
}

// sendGRPC sends what the gRPC protocol over HTTP/2 calls a trailers-only response: the status in the header block,
// and nothing after it.
func sendGRPC(rw http.ResponseWriter, status, message string) {
	header := rw.Header()
	header["Content-Type"] = []string{"application/grpc"}
	header["Grpc-Status"] = []string{status}
	header["Grpc-Message"] = []string{url.PathEscape(message)}
	rw.WriteHeader(http.StatusOK)
}

// maxAccept bounds how much of an Accept header is read.
const maxAccept = 1024

// preferred is the type of body that an Accept header likes best (RFC 9110, section 12.5.1), of the three that there
// are: problem details unless it likes another better, as a browser likes HTML.
func preferred(accept []string) string {
	if len(accept) == 0 {
		return problemType
	}
	ranges := strings.Join(accept, ",")
	if len(ranges) > maxAccept {
		return problemType
	}
	var problem, plain, page preference
	for _, one := range strings.Split(ranges, ",") {
		kind, parameters, _ := strings.Cut(one, ";")
		weight := weightOf(parameters)
		kind = strings.ToLower(strings.TrimSpace(kind))
		problem = better(problem, weight, specific(kind, "application/", "problem+json", "json"))
		plain = better(plain, weight, specific(kind, "text/", "plain", ""))
		page = better(page, weight, specific(kind, "text/", "html", ""))
	}
	switch {
	case page.weight > problem.weight && page.weight >= plain.weight:
		return htmlType
	case plain.weight > problem.weight:
		return plainType
	}
	return problemType
}

// specific is how closely a media range names a type, of which there may be another name: 0 not at all, 1 as */*, 2
// as text/*, 3 in full.
func specific(mediaRange, kind, name, otherName string) int {
	switch {
	case mediaRange == kind+name || otherName != "" && mediaRange == kind+otherName:
		return 3
	case mediaRange == kind+"*":
		return 2
	case mediaRange == "*/*":
		return 1
	}
	return 0
}

// preference is the weight of a type, and how specific the range was that gave it: the most specific one counts.
type preference struct {
	weight   float64
	specific int
}

func better(old preference, weight float64, specific int) preference {
	if specific > 0 && (specific > old.specific || specific == old.specific && weight > old.weight) {
		return preference{weight: weight, specific: specific}
	}
	return old
}

// weightOf reads q, 0 to 1, from the parameters of a media range; 1 if it is not there, 0 if it is nonsense.
func weightOf(parameters string) float64 {
	for _, parameter := range strings.Split(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(weight >= 0 && weight <= 1) {
				return 0
			}
			return weight
		}
	}
	return 1
}
