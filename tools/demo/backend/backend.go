// Package backend is the service behind the gateway in every example, test and demonstration. It holds the endpoints of
// three articles that each build a limiter inside an application, what the other examples need beside them, and a few for
// looking closely at what arrives. It knows nothing of limits: whatever an example limits, it limits in front of
// this same service.
package backend

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/sluice-ratelimit/sluice/tools/demo/playground"
)

// New returns the service. Every request that reaches it, apart from those for the playground's files and the log
// itself, is kept for GET /log and written as one line to log.
func New(log io.Writer) http.Handler {
	served := &served{out: log}
	routes := http.NewServeMux()

	routes.HandleFunc("/", notFound)
	routes.HandleFunc("GET /{$}", answer(`{"message":"Hello, world!"}`))
	routes.HandleFunc("GET /data", answer(`{"data":"Some important information"}`))
	routes.HandleFunc("GET /health", answer(`{"status":"ok"}`))
	routes.HandleFunc("GET /keyed", answer(`{"data":"Something for holders of a key"}`))
	routes.HandleFunc("/node", node)
	routes.HandleFunc("/api/reset-password-init", resetPassword)

	routes.HandleFunc("/auth", authenticate)
	routes.HandleFunc("/verify", verify)
	routes.HandleFunc("POST /login", login)
	routes.HandleFunc("/graphql", answer(`{"data":{}}`))
	routes.HandleFunc("/graphql/{operation}", answer(`{"data":{}}`))
	routes.HandleFunc("POST /examples.Echo/{method}", grpcEcho)

	routes.HandleFunc("/echo", echo)
	routes.HandleFunc("GET /events", events)
	routes.HandleFunc("/slow", slow)

	all := http.NewServeMux()
	all.Handle("/", served.record(routes))
	all.HandleFunc("GET /log", served.show)
	all.HandleFunc("DELETE /log", served.clear)
	all.Handle(playground.Prefix, playground.Handler())
	return all
}

// answer is a route as the FastAPI article has them: the same JSON for everybody.
func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, body)
	}
}

// notFound answers as FastAPI does where there is no route.
func notFound(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusNotFound, `{"detail":"Not Found"}`)
}

// node is the Node.js article's only answer.
func node(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, "Request accepted\n")
}

// resetPassword is the Next.js article's endpoint, with its two checks. No mail is sent.
func resetPassword(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		reply(w, http.StatusMethodNotAllowed, `{"error":{"message":"Not allowed"}}`)
		return
	}
	var body map[string]any // a struct would take "EMAIL" for "email", which JavaScript does not
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&body)
	if email, _ := body["email"].(string); err != nil || email == "" {
		reply(w, http.StatusBadRequest, `{"error":{"message":"'email' is required"}}`)
		return
	}
	reply(w, http.StatusOK, `{"data":{"message":"Reset link sent"}}`)
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, body)
}
