package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/backend"
)

// The examples about who is asking, and how much.

func TestPlanTiers(t *testing.T) {
	t.Parallel()
	s := scenario(t, "plan-tiers")
	for _, customer := range []struct {
		key   string
		allow int
	}{
		{"key-of-ann", 5}, {"key-of-bob", 20}, {"key-of-cho", 40}, {"key-of-ini", 60},
	} {
		first := s.get(t, "/data", "X-Api-Key", customer.key)
		require.Equal(t, strconv.Itoa(customer.allow), first.header.Get("X-RateLimit-Limit"), customer.key)
		passed, _ := s.spend(t, "/data", "X-Api-Key", customer.key)
		require.Equal(t, customer.allow, 1+passed, customer.key)
	}

	// Nobody promotes himself, or calls himself another.
	for _, forged := range [][]string{
		{"X-Plan", "enterprise"}, {"X-User", "somebody-new"}, {"X-Plan", ""}, {"x-plan", "pro", "X-User", "cho"}, {"Connection", "X-Plan, X-User"},
	} {
		got := s.get(t, "/data", append(forged, "X-Api-Key", "key-of-ann")...)
		require.Equal(t, http.StatusTooManyRequests, got.status, "%v", forged)
		require.Equal(t, "5", got.header.Get("X-RateLimit-Limit"))
	}
	require.Equal(t, http.StatusUnauthorized, s.get(t, "/data").status)

	// A line of middlewares that lost its first does not open the gate.
	s.edit(t, "middlewares: [auth, tiers]", "middlewares: [tiers]")
	got := s.get(t, "/data", "X-Api-Key", "key-of-ann")
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Contains(t, got.body, "lacks the header X-User")
}

func TestLoginProtection(t *testing.T) {
	t.Parallel()
	s := scenario(t, "login-protection")
	form := func(address, username string) answer {
		return s.from(t, address, http.MethodPost, "/login", "username="+username+"&password=x", "Content-Type", "application/x-www-form-urlencoded")
	}
	document := func(address, username string) answer {
		return s.from(t, address, http.MethodPost, "/login", `{"username":"`+username+`","password":"open sesame"}`, "Content-Type", "application/json")
	}

	// One machine, one name after the other.
	for i := range 5 {
		require.Equal(t, http.StatusUnauthorized, form("127.0.0.2", fmt.Sprint("name", i)).status)
	}
	refused := form("127.0.0.2", "name9")
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Contains(t, []string{"10", "9", "8"}, refused.header.Get("Retry-After"))
	require.Equal(t, "application/json", refused.header.Get("Content-Type"))
	require.Equal(t, `{"error":"too many attempts, try again in `+refused.header.Get("Retry-After")+` seconds"}`, refused.body)

	// Many machines, one name, in every spelling that the service takes for the same.
	for i, name := range []string{"root", "Root", "ROOT", "rOOt"} {
		require.Equal(t, http.StatusUnauthorized, form(fmt.Sprint("127.0.1.", i+1), name).status)
		require.Equal(t, http.StatusOK, document(fmt.Sprint("127.0.1.", i+1), name).status, "the body arrives whole")
	}
	require.Equal(t, http.StatusTooManyRequests, form("127.0.1.50", "root").status)
	require.Equal(t, http.StatusTooManyRequests, document("127.0.1.51", `\u0072oot`).status)
	require.Equal(t, http.StatusOK, document("127.0.1.50", "somebody-else").status)

	// A name that the service might read and Sluice does not.
	for _, body := range []string{
		"username=root&username=root&password=x", "password=x", "username=&password=x",
		"username=root&password=x&pad=" + strings.Repeat("x", 70_000), "username=root;&password=%zz",
	} {
		got := s.from(t, "127.0.1.60", http.MethodPost, "/login", body, "Content-Type", "application/x-www-form-urlencoded")
		require.Equal(t, http.StatusBadRequest, got.status, "%.60s", body)
		require.Contains(t, got.body, "lacks a body with the field username")
	}

	// A machine that waits, as it is told to, until the bucket is empty as well.
	waitAsTold(t, refused)
	for i := range 5 {
		require.Equal(t, http.StatusUnauthorized, form("127.0.0.2", fmt.Sprint("more", i)).status)
	}
	patient := form("127.0.0.2", "more9")
	require.Equal(t, http.StatusTooManyRequests, patient.status)
	seconds, err := strconv.Atoi(patient.header.Get("Retry-After"))
	require.NoError(t, err)
	require.Greater(t, seconds, 200, "one more in five minutes")
}

func TestTenantQuota(t *testing.T) {
	t.Parallel()
	awayFrom(24 * time.Hour)
	s := scenario(t, "tenant-quota")
	ask := func(tenant string) answer {
		return do(t, http.DefaultClient, newRequest(t, http.MethodGet, s.web+"/data", "", "Host", tenant))
	}
	quota := func(got answer) int {
		found := regexp.MustCompile(`"daily";r=(\d+);t=\d+, "burst";r=\d+;t=\d+`).FindStringSubmatch(got.header.Get("RateLimit"))
		require.NotNil(t, found, "%v", got.header)
		left, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		return left
	}
	require.Equal(t, `"daily";q=50;w=86400, "burst";q=20;w=4`, ask("other.api.localhost").header.Get("RateLimit-Policy"))

	// What the burst refuses is not missing from the quota.
	passed, refused := s.spend(t, "/data", "Host", "acme.api.localhost")
	require.Contains(t, refused.body, `["burst"]`)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	for range 50 {
		if ask("acme.api.localhost").status == http.StatusOK {
			passed++
		}
	}
	waitAsTold(t, refused)
	require.Equal(t, 50-passed-1, quota(ask("acme.api.localhost")))
	passed++

	// The quota, in the end, is all that there is until midnight.
	for got := ask("ACME.api.localhost:80"); got.status == http.StatusOK || got.header.Get("Retry-After") == "1"; got = ask("acme.api.localhost") {
		if got.status == http.StatusOK {
			passed++
		} else {
			time.Sleep(200 * time.Millisecond)
		}
	}
	require.Equal(t, 50, passed)
	time.Sleep(300 * time.Millisecond) // the bucket would let one more pass
	midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	last := ask("acme.api.localhost")
	require.Contains(t, last.body, `["daily"]`)
	reset, err := strconv.ParseInt(last.header.Get("X-RateLimit-Reset"), 10, 64)
	require.NoError(t, err)
	require.WithinRange(t, time.Unix(reset, 0), midnight, midnight.Add(time.Second), "rounded up")
	seconds, err := strconv.ParseFloat(last.header.Get("Retry-After"), 64)
	require.NoError(t, err)
	require.InDelta(t, time.Until(midnight).Seconds(), seconds, 2)

	require.Equal(t, 499, quota(ask("big.api.localhost")))
	require.Equal(t, 48, quota(ask("other.api.localhost")))
	require.Equal(t, http.StatusNotFound, ask("elsewhere.localhost").status)
}

func TestJWTAPI(t *testing.T) {
	t.Parallel()
	s := scenario(t, "jwt-api")
	bearer := func(claims string) string { return "Bearer " + backend.SignToken(claims) }
	alice := bearer(`{"sub":"alice","name":"A"}`)

	passed, _ := s.spend(t, "/data", "Authorization", alice)
	require.Equal(t, 5, passed)
	elsewhere := s.from(t, "127.0.0.7", http.MethodGet, "/data", "", "Authorization", "bearer "+backend.SignToken(`{"sub":"alice","another":"token"}`))
	require.Equal(t, http.StatusTooManyRequests, elsewhere.status, "alice at another address, with another token")
	requireLeft(t, "4", s.get(t, "/data", "Authorization", bearer(`{"sub":"bob"}`)))

	// Nobody in particular is counted by address; so is a genuine token that names nobody.
	requireLeft(t, "4", s.get(t, "/data"))
	requireLeft(t, "3", s.get(t, "/data", "Authorization", bearer(`{"name":"no subject"}`)))
	requireLeft(t, "2", s.get(t, "/data", "Authorization", bearer(`{"sub":["a","list"]}`)))
	requireLeft(t, "4", s.from(t, "127.0.0.7", http.MethodGet, "/data", ""))

	// What is not genuine does not come so far as to touch a counter.
	for _, forged := range []string{alice + "x", bearer(`{"sub":"bob"}`)[:60], "Bearer", "Bearer a.b.c", "Basic YWxpY2U6"} {
		require.Equal(t, http.StatusUnauthorized, s.get(t, "/data", "Authorization", forged).status, forged)
	}
	requireLeft(t, "3", s.get(t, "/data", "Authorization", bearer(`{"sub":"bob"}`)))
	requireLeft(t, "1", s.get(t, "/data"))
}

func TestGraphQLCost(t *testing.T) {
	t.Parallel()
	s := scenario(t, "graphql-cost")
	post := func(path string, header ...string) answer {
		return s.send(t, http.MethodPost, path, `{"query":"{ me { name } }"}`, append(header, "X-Api-Key", "k1")...)
	}
	requireLeft(t, "90", post("/graphql"))
	requireLeft(t, "90", post("/graphql/schema"))
	requireLeft(t, "60", post("/graphql/search"))
	requireLeft(t, "10", post("/graphql", "X-Batch", "1"))

	for _, dear := range []string{"/graphql/report", "/graphql/%72eport", "/graphql/./report", "/graphql//report"} {
		got := post(dear)
		require.Equal(t, http.StatusTooManyRequests, got.status, dear)
		require.Equal(t, "10", got.header.Get("X-RateLimit-Remaining"), "a refusal costs nothing")
	}
	requireLeft(t, "9", post("/graphql/me"))
	require.Equal(t, http.StatusTooManyRequests, post("/graphql").status, "ten is more than nine")
	requireLeft(t, "8", post("/graphql/me"))
	requireLeft(t, "90", s.send(t, http.MethodPost, "/graphql", "", "X-Api-Key", "k2"))

	without := s.get(t, "/graphql/me")
	require.Equal(t, http.StatusBadRequest, without.status)
	require.JSONEq(t, `{"title":"Bad Request","status":400,"detail":"This request lacks the header X-Api-Key."}`, without.body)
}
