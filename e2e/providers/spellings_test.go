package providers

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice"
)

// policies is RateLimit-Policy for a request that all limits are for.
const policies = `"bucket";q=10;w=5400, "limit-2";q=40;w=288000, "search";q=50;w=5400, ` +
	`"limit-5";q=505;w=86400, "limit-6";q=506;w=86400, "limit-7";q=507;w=86400, "limit-8";q=508;w=86400, ` +
	`"limit-9";q=509;w=86400, "limit-10";q=510;w=86400, "limit-11";q=511;w=86400, "limit-12";q=512;w=86400`

// probes are requests one after the other, and what comes of each: the policy of search, its requests left, those left of bucket, the
// report of the dry run.
var probes = []struct {
	method, path, tenant, header string
	want                         string
}{
	{"GET", "/", "", "", "418 - - 9 "},
	{"GET", "/search", "any", "", "418 50 48 8 tried"},
	{"POST", "/search", "Any", "", "418 50 38 7 tried"},
	{"GET", "/users/7", "any", "", "418 50 38 6 tried"},
	{"PUT", "/search", "any", "", "418 - - 5 tried"},
	{"GET", "/search", "GOLD", "", "418 70 68 4 tried"},
	{"GET", "/search", "monitor", "", "418 - - 3 tried"},
	{"GET", "/search", "", "X-Tenant-Id: 7", "418 50 48 2 tried"},
	{"OPTIONS", "/", "", "Access-Control-Request-Method: PUT", "418 - - 1 tried"},
	{"TRACE", "/", "", "", "418 - - - "},
	{"GET", "/", "", "X-Internal: yes, really", "418 - - - "},
	{"GET", "/", "", "X-Internal: yes", "418 - - 0 tried"},
	{"GET", "/", "", "", "420 - - 0 tried bucket 540"},
}

var items = regexp.MustCompile(`"([a-z0-9-]+)";[qr]=(\d+)`)

// numbers are the first parameters of a RateLimit field's items, by name.
func numbers(field string) map[string]string {
	all := map[string]string{"search": "-", "bucket": "-"}
	for _, item := range items.FindAllStringSubmatch(field, -1) {
		all[item[1]] = item[2]
	}
	return all
}

// probe sends all probes by send, which may change where they go.
func probe(t *testing.T, send func(*http.Request) *http.Response) {
	t.Helper()
	for i, p := range probes {
		request, err := http.NewRequestWithContext(t.Context(), p.method, "http://127.0.0.1"+p.path, nil)
		require.NoError(t, err)
		request.Header.Set("Origin", "https://example.com")
		if p.tenant != "" {
			request.Header.Set("X-Tenant", p.tenant)
		}
		if name, value, found := strings.Cut(p.header, ": "); found {
			request.Header.Set(name, value)
		}
		response := send(request)
		require.NoError(t, response.Body.Close())
		header := response.Header
		got := []string{
			strconv.Itoa(response.StatusCode), numbers(header.Get("RateLimit-Policy"))["search"], numbers(header.Get("RateLimit"))["search"],
			numbers(header.Get("RateLimit"))["bucket"], "",
		}
		if report := header.Get("X-RateLimit-Dry-Run"); report != "" {
			got[4] = items.FindStringSubmatch(report)[1]
		}
		if response.StatusCode == 420 {
			got = append(got, header.Get("X-Policy"), header.Get("X-Again"))
		}
		require.Equal(t, p.want, strings.Join(got, " "), "probe %d: %s %s", i, p.method, p.path)
		if i == 1 {
			require.Equal(t, policies, header.Get("RateLimit-Policy"))
			require.Equal(t, "10", header.Get("X-RateLimit-Limit"))
		}
	}
}

// TestSpellings has all spellings mean the same.
func TestSpellings(t *testing.T) {
	for provider, options := range map[string]map[string]any{
		"file":          fromFile(t, "testdata/spellings.yml"),
		"toml":          fromFile(t, "testdata/spellings.toml"),
		"docker":        fromLabels(t, pairs(t, "testdata/labels.txt")),
		"kubernetescrd": fromResource(t, "testdata/resource.yml"),
	} {
		t.Run(provider, func(t *testing.T) {
			h := handler(t, options, provider)
			probe(t, func(request *http.Request) *http.Response {
				request.RemoteAddr = "127.0.0.1:4711"
				recorder := httptest.NewRecorder()
				h.ServeHTTP(recorder, request)
				return recorder.Result()
			})
		})
	}
}

// TestDecoded has the options themselves be the same, but for how a number or a switch is written.
func TestDecoded(t *testing.T) {
	yaml := normal(config(t, fromFile(t, "testdata/spellings.yml")))
	require.Equal(t, yaml, normal(config(t, fromFile(t, "testdata/spellings.toml"))), "TOML")
	require.Equal(t, yaml, normal(config(t, fromResource(t, "testdata/resource.yml"))), "JSON")

	labels := normal(config(t, fromLabels(t, pairs(t, "testdata/labels.txt"))))
	require.NotEqual(t, yaml, labels, "the order of limits is lost in labels, and New puts it back")
	require.ElementsMatch(t, yaml.Limits, labels.Limits)
	labels.Limits = yaml.Limits
	require.Equal(t, yaml, labels, "labels")
}

// normal rewrites what is written differently and means the same.
func normal(c *sluice.Config) *sluice.Config {
	same := strings.NewReplacer("0.500000", "0.5", "true", "1", "false", "0")
	trim := func(list []string) {
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
	}
	trim(c.Headers)
	c.Exempt.Preflight = same.Replace(c.Exempt.Preflight)
	for i := range c.Limits {
		l := &c.Limits[i]
		l.Average = same.Replace(l.Average)
		l.DryRun = same.Replace(l.DryRun)
		trim(l.Key)
		for j := range l.Overrides {
			trim(l.Overrides[j].Key)
			l.Overrides[j].Unlimited = same.Replace(l.Overrides[j].Unlimited)
		}
	}
	return c
}
