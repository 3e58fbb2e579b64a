package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Echo is what /echo answers: the request as the service saw it.
type Echo struct {
	Method  string      `json:"method"`
	URL     string      `json:"url"`
	Proto   string      `json:"proto"`
	Host    string      `json:"host"`
	Headers http.Header `json:"headers"`
	Length  int64       `json:"length"` // of the body as it was read, whatever Content-Length said
	SHA256  string      `json:"sha256"` // of the body
}

// echo reads the whole body, so a body that a gateway cut short or changed shows.
func echo(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	length, err := io.Copy(sum, r.Body)
	if err != nil {
		http.Error(w, "the body broke off: "+err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(Echo{
		Method:  r.Method,
		URL:     r.URL.RequestURI(),
		Proto:   r.Proto,
		Host:    r.Host,
		Headers: r.Header,
		Length:  length,
		SHA256:  hex.EncodeToString(sum.Sum(nil)),
	})
}

// events sends ?count= server-sent events, ten if not told, one every 200 ms.
func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	stream := http.NewResponseController(w)
	for i := range number(r, "count", 10) {
		if i > 0 && !pause(r, 200*time.Millisecond) {
			return
		}
		fmt.Fprintf(w, "id: %d\ndata: {\"event\":%d}\n\n", i+1, i+1)
		if stream.Flush() != nil {
			return
		}
	}
}

// slow answers after ?ms= milliseconds, a thousand if not told.
func slow(w http.ResponseWriter, r *http.Request) {
	ms := number(r, "ms", 1000)
	if pause(r, time.Duration(ms)*time.Millisecond) {
		reply(w, http.StatusOK, fmt.Sprintf(`{"slept_ms":%d}`, ms))
	}
}

// number reads a whole number from the query; anything else is the default. A minute's worth is the most.
func number(r *http.Request, name string, byDefault int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 0 {
		return byDefault
	}
	return min(n, 60_000)
}

// pause waits, and reports false if the client has gone meanwhile.
func pause(r *http.Request, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.Context().Done():
		return false
	}
}
