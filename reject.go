package sluice

import (
	"net/http"
	"strconv"
)

// The refusal.

// refuse answers a request that refusal's limit has no room for.
func refuse(rw http.ResponseWriter, req *http.Request, refusal *charge) {
	seconds := retryAfter(refusal.wait)
	header := rw.Header()
	header["Retry-After"] = wholeNumber(seconds)
	header["Content-Type"] = []string{"application/problem+json"}
	rw.WriteHeader(http.StatusTooManyRequests)
	if req.Method == http.MethodHead {
		return
	}
	body := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,` +
		`"detail":"Try again in ` + strconv.FormatInt(seconds, 10) + ` s.","violated-policies":["` + refusal.limit.name + `"]}` + "\n"
	_, _ = rw.Write([]byte(body))
}

// retryAfter is a wait in nanoseconds as whole seconds, rounded up, at least 1 (RFC 9110, section 10.2.3, has no fractions, and several clients
// fail on them). After that many seconds the same request passes if nobody else used the key.
func retryAfter(wait int64) int64 {
	if wait <= second {
		return 1
	}
	return (wait-1)/second + 1
}
