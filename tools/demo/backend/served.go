package backend

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// keep bounds the log: the newest requests stay.
const keep = 5000

// Request is one request that reached the service.
type Request struct {
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	URL    string    `json:"url"`
	Client string    `json:"client"` // X-Forwarded-For, as the gateway sets it
}

// Log is what GET /log answers.
type Log struct {
	Total    int       `json:"total"`    // since the start or the last DELETE /log, also those no longer kept
	Requests []Request `json:"requests"` // oldest first
}

// served remembers what arrived, so that a client's picture of what was let through can be compared with the truth.
type served struct {
	out io.Writer

	mu  sync.Mutex
	log Log
}

// record notes a request before it is answered: whoever has its response finds it in the log.
func (s *served) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.add(Request{
			Time:   time.Now(),
			Method: r.Method,
			URL:    r.URL.RequestURI(),
			Client: r.Header.Get("X-Forwarded-For"),
		})
		next.ServeHTTP(w, r)
	})
}

func (s *served) add(request Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.Total++
	s.log.Requests = append(s.log.Requests, request)
	if extra := len(s.log.Requests) - keep; extra > 0 {
		s.log.Requests = s.log.Requests[extra:]
	}
	fmt.Fprintf(s.out, "%s backend: %s %s\n", request.Time.Format(time.TimeOnly), request.Method, request.URL)
}

func (s *served) show(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	log := s.log
	s.mu.Unlock()
	if log.Requests == nil {
		log.Requests = []Request{}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(log)
}

func (s *served) clear(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.log = Log{}
	s.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}
