package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/backend"
)

// TestAbuse sends what no honest client sends. Of each kind it must be true that nobody gets past the limit, that nobody else's counter is touched, and that
// nothing is answered but 200 and 429, or the 4xx with which Traefik itself turns a malformed request away.
func TestAbuse(t *testing.T) {
	t.Parallel()
	s := start(t, setup{
		dynamic: "e2e/testdata/abuse.yml",
		backend: echoEverywhere(),
		args: []string{
			"--entryPoints.web.forwardedHeaders.trustedIPs=127.0.0.1/32",
			"--entryPoints.web.http.sanitizePath=false",
			"--entryPoints.web.http.maxHeaderBytes=20000000", // or Traefik would refuse the giant keys itself
		},
	})
	const long = 10_000_000
	token := func(payload string) string {
		return "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".x"
	}

	// The first request of each kind is the victim's, whose four others must be left when all is over.
	for i, kind := range []struct {
		name   string
		victim attempt
		// none are attempts that have no key, and so share the five requests of their address.
		none []attempt
		// same are attempts in the name of somebody else, in other words: they share five requests.
		same []attempt
	}{
		{
			name:   "header",
			victim: header("X-Api-Key", "victim"),
			none: []attempt{
				{}, header("X-Api-Key", ""), header("X-Api-Key", "victim", "X-Api-Key", "victim"), header("X-Api-Key", "a", "X-Api-Key", "b"),
				header("X_Api_Key", "victim"), header("X-Api-Key", "", "X-Api-Key", "x"), header("X-Forwarded-For", "203.0.113.1"),
			},
			same: []attempt{
				header("X-Api-Key", strings.Repeat("k", long)), header("x-api-key", strings.Repeat("k", long)), header("X-API-KEY", " "+strings.Repeat("k", long)),
			},
		},
		{
			name:   "cookie",
			victim: header("Cookie", "session=victim"),
			none: []attempt{
				{}, header("Cookie", "session=victim; session=victim"), header("Cookie", "session=a; session=b"), header("Cookie", "session="),
				header("Cookie", "Session=victim"), header("Cookie", "session=a", "Cookie", "session=victim"), header("Cookie", ";;;=;session"),
				header("Cookie", strings.Repeat("session=a; ", 10_000)), header("Cookie", strings.Repeat("a=b; ", 100_000)),
			},
			same: []attempt{
				header("Cookie", "session="+strings.Repeat("k", 1_000_000)), header("Cookie", `session="`+strings.Repeat("k", 1_000_000)+`"`),
				header("Cookie", "a=b; session="+strings.Repeat("k", 1_000_000)+"; c=d"),
			},
		},
		{
			name:   "query",
			victim: attempt{path: "?key=victim"},
			none: []attempt{
				{}, {path: "?key="}, {path: "?key=victim&key=victim"}, {path: "?key=a&%6bey=b"}, {path: "?KEY=victim"}, {path: "?key=%zz"}, {path: "?%zz"},
				{path: "?" + strings.Repeat("key=a&", 10_000)},
			},
			same: []attempt{{path: "?key=" + strings.Repeat("k", 100_000)}, {path: "?%6bey=" + strings.Repeat("%6b", 100_000)}, {path: "?a=b&key=" + strings.Repeat("k", 100_000)}},
		},
		{
			name:   "basic",
			victim: header("Authorization", basic("victim:x")),
			none: []attempt{
				{}, header("Authorization", "Basic"), header("Authorization", "Basic ***"), header("Authorization", basic("no colon")),
				header("Authorization", basic("victim:x")[:8]), header("Authorization", "Basic "+strings.Repeat("A", 1_000_001)),
			},
			same: []attempt{header("Authorization", basic("eve:1")), header("Authorization", basic("eve:2")), header("Authorization", "bASIC"+basic("eve:3")[5:])},
		},
		{
			name:   "token",
			victim: header("Authorization", token(`{"sub":"victim"}`)),
			none: []attempt{
				{}, header("Authorization", "Bearer"), header("Authorization", "Bearer x"), header("Authorization", "Bearer a.b"), header("Authorization", "Bearer a.b.c.d"),
				header("Authorization", "Bearer ..."), header("Authorization", token("")), header("Authorization", token("null")), header("Authorization", token("[]")),
				header("Authorization", token(`{"sub":`)), header("Authorization", token(`{"sub":null}`)), header("Authorization", token(`{"sub":""}`)),
				header("Authorization", token(`{"sub":["victim"]}`)), header("Authorization", token(`{"sub":{"sub":"victim"}}`)),
				header("Authorization", strings.Replace(token(`{"sub":"victim"}`), ".x", "==.x", 1)), header("Authorization", token("\xff\xfe\x00")),
				header("Authorization", token(`{"sub":"victim"}`), "Authorization", token(`{"sub":"victim"}`)),
				header("Authorization", token(strings.Repeat(`{"sub":`, 5_000))), header("Authorization", token(`{"sub":"`+strings.Repeat("k", long)+`"}`)),
				header("Authorization", "Bearer "+strings.Repeat(".", 1_000_000)), header("Authorization", token(`{"sub":1e999999999}`)),
				header("Authorization", token(`{"sub":"eve","sub":"victim"}`)), header("Authorization", token(`{"sub":"eve","SUB":"victim"}`)),
			},
			same: []attempt{
				header("Authorization", token(`{"sub":"eve","n":1}`)), header("Authorization", "bearer  "+token(`{"n":2,"sub":"eve"}`)[7:]),
			},
		},
		{
			name:   "body",
			victim: document(`{"user":"victim"}`),
			none: []attempt{
				{}, document(""), document("{"), document(`{"user":null}`), document(`{"user":""}`), document(`{"user":["victim"]}`), document(`["user","victim"]`),
				document(`{"user":"victim"` + strings.Repeat(" ", long) + `}`), document(`{"user":"` + strings.Repeat("k", long) + `"}`),
				document(`{"user":` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000) + `}`), document(strings.Repeat(`{"user":`, 8_000)),
				document(`{"x":` + strings.Repeat("[", 60_000)), document("\xff\xfe\x00\x01"), document(`{"user":1e999999999}`),
				document(`{"user":"eve","user":"victim"}`), document(`{"user":"eve","\u0075SER":"victim"}`),
				{body: bomb(t), header: []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}},
				form("user=victim&user=victim"), form("user="), form("user=%zz"), form("%75ser=a&user=b"), form(strings.Repeat("user=a&", 9_000)), form(";user=victim"),
				{body: "user=victim"}, {body: "user=victim", header: []string{"Content-Type", "application/x-www-form-urlencoded; charset="}},
				{body: "--b\r\n", header: []string{"Content-Type", "multipart/form-data"}}, {body: "--b\r\n", header: []string{"Content-Type", "multipart/form-data; boundary=b"}},
				{body: strings.Repeat("--b\r\n\r\n\r\n", 6_000), header: []string{"Content-Type", "multipart/form-data; boundary=b"}},
			},
			same: []attempt{
				document(`{"user":"eve"}`), form("user=eve"), form("a=b&%75ser=%65ve"),
				{body: "--b\r\nContent-Disposition: form-data; name=user\r\n\r\neve\r\n--b--", header: []string{"Content-Type", "multipart/form-data; boundary=b"}},
			},
		},
		{
			name:   "several",
			victim: header("X-A", "vic", "X-B", "tim"),
			none:   []attempt{{}, header("X-A", "victim"), header("X-B", "victim"), header("X-A", "vic", "X-B", ""), header("X-A", "vic", "X-A", "vic", "X-B", "tim")},
			same:   []attempt{header("X-A", "victi", "X-B", "m")},
		},
		{
			name:   "host",
			victim: header("Host", "victim.example.com"),
			same: []attempt{
				header("Host", "eve.example.com"), header("Host", "EVE.example.com"), header("Host", "eve.example.com:80"), header("Host", "eve.example.com."),
				header("Host", "eve.example.com:8080", "X-Forwarded-Host", "victim.example.com"),
			},
		},
		{
			name: "path", // the limit is for /path/login alone, and the victim elsewhere
			same: []attempt{
				{path: "/login"}, {path: "/login?a"}, {path: "/%6cogin"}, {path: "//login"}, {path: "/./login"}, {path: "/x/../login"}, {path: "%2flogin"},
				{path: "/%2e/login"}, {path: "/login", header: []string{"X-Forwarded-Prefix", "/other"}},
			},
		},
	} {
		t.Run(kind.name, func(t *testing.T) {
			victim, attacker := fmt.Sprintf("127.1.%d.1", i), fmt.Sprintf("127.1.%d.2", i)
			if kind.victim.path != "" || kind.victim.header != nil {
				requireLeft(t, "4", s.attempt(t, victim, kind.name, kind.victim))
			}
			s.storm(t, attacker, kind.name, kind.none)
			s.storm(t, attacker, kind.name, kind.same)
			if kind.victim.path != "" || kind.victim.header != nil {
				requireLeft(t, "3", s.attempt(t, victim, kind.name, kind.victim))
			}
		})
	}

	t.Run("body of unknown length", func(t *testing.T) {
		send := func(text string) answer {
			unknown := struct{ io.Reader }{strings.NewReader(text)}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.web+"/body", unknown)
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // JSON is known by how it begins
			return do(t, http.DefaultClient, r)
		}
		requireLeft(t, "4", send(`{"user":"chunked"}`))
		long := `{"user":"chunked","x":"` + strings.Repeat("x", 200_000) + `"}`
		got := send(long)
		requireLeft(t, "4", got) // of the address, not of the user
		require.Contains(t, got.body, fmt.Sprintf(`"length":%d,"sha256":"%x"`, len(long), sha256.Sum256([]byte(long))))
		requireLeft(t, "3", send("user=chunked&x="+strings.Repeat("x", 200_000))) // as well, though the field comes first
		requireLeft(t, "3", send("user=chunked"))
	})

	t.Run("address", func(t *testing.T) {
		forged := func(lines ...string) (a attempt) {
			for _, line := range lines {
				a.header = append(a.header, "X-Forwarded-For", line)
			}
			return a
		}
		requireLeft(t, "4", s.attempt(t, "127.0.0.1", "address", forged("203.0.113.1")))
		var rotating, forging, around []attempt
		for i := range 12 {
			rotating = append(rotating, forged(fmt.Sprintf("2001:db8:1:1:%x::%x", i+1, i)))
			forging = append(forging, forged(fmt.Sprintf("203.0.113.%d", i), "203.0.113.77"), forged(strings.Repeat("203.0.113.1, ", 10_000)+"203.0.113.77"))
			around = append(around, forged(fmt.Sprintf("203.0.113.%d", i)))
		}
		s.storm(t, "127.0.0.1", "address", rotating)
		s.storm(t, "127.0.0.1", "address", append(forging, forged("::ffff:203.0.113.77"), forged("203.0.113.77:80"), forged("[::ffff:203.0.113.77]:80"),
			header("X-Forwarded-For", "203.0.113.77", "Connection", "X-Forwarded-For")))
		s.storm(t, "127.1.99.2", "address", around)
		s.storm(t, "127.0.0.1", "address", []attempt{
			{}, forged(""), forged("nonsense"), forged("203.0.113.1,"), forged("203.0.113.1 203.0.113.2"), forged("203.0.113.999"), forged(strings.Repeat("9", long)),
			forged(strings.Repeat(",", 1_000_000)), forged("2001:db8::/32"), forged("[2001:db8::1"),
		})
		requireLeft(t, "3", s.attempt(t, "127.0.0.1", "address", forged("203.0.113.1")))
	})
}

// attempt is one request: where no body is given it is a GET.
type attempt struct {
	path   string // after the name of the kind
	body   string
	header []string
}

func header(nameAndValue ...string) attempt { return attempt{header: nameAndValue} }

func document(text string) attempt {
	return attempt{body: text, header: []string{"Content-Type", "application/json"}}
}

func form(text string) attempt {
	return attempt{body: text, header: []string{"Content-Type", "application/x-www-form-urlencoded"}}
}

func basic(credentials string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))
}

// bomb is ten megabytes of JSON, in ten kilobytes.
func bomb(t *testing.T) string {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, `{"user":"`+strings.Repeat("k", 10_000_000)+`"}`)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return packed.String()
}

func (s *stage) attempt(t *testing.T, from, kind string, a attempt) answer {
	t.Helper()
	method := http.MethodGet
	if a.body != "" {
		method = http.MethodPost
	}
	return s.from(t, from, method, "/"+kind+a.path, a.body, a.header...)
}

// storm makes each attempt twice or more. The first five pass, whichever they are, and the service gets them whole.
func (s *stage) storm(t *testing.T, from, kind string, attempts []attempt) {
	t.Helper()
	if attempts == nil {
		return
	}
	passed := 0
	for range max(2, 12/len(attempts)) {
		for _, a := range attempts {
			got := s.attempt(t, from, kind, a)
			what := fmt.Sprintf("%.60s %.60q %.60q: %.200s", a.path, a.header, a.body, got.body)
			switch got.status {
			case http.StatusOK:
				passed++
				require.Contains(t, got.body, fmt.Sprintf(`"length":%d,`, len(a.body)), what)
			case http.StatusTooManyRequests:
				require.Equal(t, 5, passed, what)
			default:
				require.Contains(t, []int{http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge}, got.status, what)
			}
			require.LessOrEqual(t, passed, 5, what)
		}
	}
	require.Equal(t, 5, passed, "an honest client at the same address would have got as many")
}

// echoEverywhere answers on every path what the demo's backend answers on /echo.
func echoEverywhere() http.Handler {
	service := backend.New(io.Discard)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/echo"
		r.Header = nil // which may be long
		service.ServeHTTP(w, r)
	})
}
