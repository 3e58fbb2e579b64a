package backend

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// What the examples put beside a service: somebody who knows the customers, somebody who checks tokens, a login, a gRPC service.

// customer is what the auth service knows about the holder of an API key.
type customer struct{ user, plan string }

var customers = map[string]customer{
	"key-of-ann": {"ann", "free"},
	"key-of-bob": {"bob", "pro"},
	"key-of-cho": {"cho", "enterprise"},
	"key-of-ini": {"initech", "enterprise"},
}

// authenticate answers Traefik's forwardAuth: who the caller is, and on which plan.
func authenticate(w http.ResponseWriter, r *http.Request) {
	caller, known := customers[r.Header.Get("X-Api-Key")]
	if !known {
		reply(w, http.StatusUnauthorized, `{"error":"send your key in X-Api-Key"}`)
		return
	}
	w.Header().Set("X-User", caller.user)
	w.Header().Set("X-Plan", caller.plan)
}

// TokenSecret signs the tokens of the examples. A real one is no constant.
const TokenSecret = "sluice-example"

// verify answers Traefik's forwardAuth: whoever sends a token must send a true one (HS256); whoever sends none is nobody in particular.
func verify(w http.ResponseWriter, r *http.Request) {
	authorization := r.Header.Values("Authorization")
	if len(authorization) == 0 {
		return
	}
	scheme, token, _ := strings.Cut(authorization[0], " ")
	if len(authorization) > 1 || !strings.EqualFold(scheme, "Bearer") || !isSigned(token) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		reply(w, http.StatusUnauthorized, `{"error":"this token is not one of ours"}`)
	}
}

// SignToken makes a JSON Web Token of claims that are JSON already.
func SignToken(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(claims))
	return signed + "." + encode(signature(signed))
}

func isSigned(token string) bool {
	dot := strings.LastIndexByte(token, '.')
	if dot < 0 {
		return false
	}
	given, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
	return err == nil && hmac.Equal(given, signature(token[:dot]))
}

func signature(signed string) []byte {
	mac := hmac.New(sha256.New, []byte(TokenSecret))
	mac.Write([]byte(signed))
	return mac.Sum(nil)
}

// login knows one password. It takes what browsers and scripts send: a form or JSON.
func login(w http.ResponseWriter, r *http.Request) {
	var given struct{ Username, Password string }
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		// What cannot be read leaves the name empty.
		_ = json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&given)
	} else {
		given.Username, given.Password = r.PostFormValue("username"), r.PostFormValue("password")
	}
	if given.Username == "" || given.Password != "open sesame" {
		reply(w, http.StatusUnauthorized, `{"error":"wrong name or password"}`)
		return
	}
	reply(w, http.StatusOK, `{"message":"welcome"}`)
}

// grpcEcho is a gRPC service for those who look at it with curl: it sends back the message of a call.
func grpcEcho(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	if _, err := io.Copy(w, r.Body); err != nil {
		return
	}
	w.Header().Set("Grpc-Status", "0")
}
