package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

const artilleryVersion = "2.0.34"

// TestLoad has Artillery send the Next.js article's load, examples/loadtest/artillery.yml, to that article's example. It takes a
// quarter of a minute. With LOAD=full, which is `make load`, it is the article's minute, and then another with ten times the
// arrivals.
//
// How many requests pass follows from when they came: see demanded. How long they take depends on what else the machine does,
// so that counts in the full runs alone, and they may be tried again.
func TestLoad(t *testing.T) {
	artillery := installArtillery(t)
	if os.Getenv("LOAD") != "full" {
		testLoad(t, artillery, "short")
		return
	}
	for _, environment := range []string{"article", "tenfold"} {
		t.Run(environment, func(t *testing.T) {
			report := testLoad(t, artillery, environment)
			for again := 0; again < 2 && (report.p95 >= 75 || report.p99 >= 100); again++ {
				t.Log("That was slow. Is the machine busy? Again:")
				report = testLoad(t, artillery, environment)
			}
			require.Less(t, report.p95, 75.0, "95% of the responses come within so many milliseconds")
			require.Less(t, report.p99, 100.0, "99% of the responses come within so many milliseconds")
		})
	}
}

// loadReport is what Artillery found.
type loadReport struct {
	requests, passed, refused int
	p95, p99                  float64 // milliseconds
}

// testLoad sends one load and sees that those requests have passed that should, and no others.
func testLoad(t *testing.T, artillery, environment string) loadReport {
	folder := t.TempDir()
	access := filepath.Join(folder, "access.log")
	s := start(t, setup{dynamic: "examples/nextjs-window/dynamic.yml", args: []string{
		"--accesslog.filepath=" + access,
		"--accesslog.format=json",
	}})

	output := filepath.Join(folder, "report.json")
	root, err := gateway.Root()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), artillery, "run", "--target", s.web+"/api", "--environment", environment,
		"--output", output, filepath.Join(root, "examples", "loadtest", "artillery.yml"))
	command.Env = append(os.Environ(), "ARTILLERY_DISABLE_TELEMETRY=true")
	t.Logf("%s: Artillery sends its load", environment)
	said, _ := command.CombinedOutput() // the error is one of the file's thresholds, or else there is no report
	report := readReport(t, output, said)
	s.Stop() // and so the access log is whole

	arrivals := readArrivals(t, access)
	least, most := demanded(arrivals, 5*time.Second)
	t.Logf("%s: %d requests, %d passed (by their times %d to %d must), %d refused; p95 %.1f ms, p99 %.1f ms",
		environment, report.requests, report.passed, least, most, report.refused, report.p95, report.p99)
	require.Len(t, arrivals, report.requests)
	require.Equal(t, report.requests, report.passed+report.refused, "something was neither 200 nor 429:\n%s", said)
	require.GreaterOrEqual(t, report.passed, least)
	require.LessOrEqual(t, report.passed, most)
	requireWindows(t, arrivals, 5*time.Second)
	require.GreaterOrEqual(t, report.passed, map[string]int{"short": 3, "article": 12, "tenfold": 12}[environment])
	return report
}

func readReport(t *testing.T, file string, said []byte) loadReport {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err, "Artillery said:\n%s", said)
	var report struct {
		Aggregate struct {
			Counters  map[string]int
			Summaries map[string]struct{ P95, P99 float64 }
		}
	}
	require.NoError(t, json.Unmarshal(text, &report))
	counters, times := report.Aggregate.Counters, report.Aggregate.Summaries["http.response_time"]
	return loadReport{
		requests: counters["http.requests"],
		passed:   counters["http.codes.200"],
		refused:  counters["http.codes.429"],
		p95:      times.P95,
		p99:      times.P99,
	}
}

// arrival is a request in Traefik's access log.
type arrival struct {
	At     time.Time     `json:"StartUTC"`
	Took   time.Duration `json:"Duration"`
	Status int           `json:"DownstreamStatus"`
}

func (a arrival) end() time.Time { return a.At.Add(a.Took) }

// readArrivals returns the requests in the order in which they came.
func readArrivals(t *testing.T, file string) []arrival {
	t.Helper()
	log, err := os.ReadFile(file)
	require.NoError(t, err)
	var arrivals []arrival
	for line := range bytes.Lines(log) {
		var a arrival
		require.NoError(t, json.Unmarshal(line, &a))
		arrivals = append(arrivals, a)
	}
	slices.SortFunc(arrivals, func(a, b arrival) int { return a.At.Compare(b.At) })
	return arrivals
}

// demanded is how many requests must have passed a window of one request, by the times they came: the first, and each that is the
// first after the window of the one before. A minute has twelve windows of 5 s, and a thirteenth begins if it goes on a little
// longer, as it does where Artillery cannot keep up. The limiter looks at the clock at some moment between a request's arrival
// and its end, which on a busy machine may make a difference: hence the least and the most.
func demanded(arrivals []arrival, window time.Duration) (least, most int) {
	var early, late time.Time // ends of the window, for the most and for the least
	for _, a := range arrivals {
		if !a.end().Before(early) {
			most++
			early = a.At.Add(window)
		}
		if !a.At.Before(late) {
			least++
			late = a.end().Add(window)
		}
	}
	return least, most
}

// requireWindows holds every answer against the windows that were open between the request's arrival and its end.
func requireWindows(t *testing.T, arrivals []arrival, window time.Duration) {
	t.Helper()
	var opened []arrival // the requests that opened windows
	for _, a := range arrivals {
		if a.Status != http.StatusOK {
			continue
		}
		if len(opened) > 0 {
			before := opened[len(opened)-1]
			require.False(t, a.end().Before(before.At.Add(window)), "one passed %v after another", a.end().Sub(before.At))
		}
		opened = append(opened, a)
	}
	for _, a := range arrivals {
		if a.Status != http.StatusOK {
			require.True(t, slices.ContainsFunc(opened, func(o arrival) bool {
				return !a.end().Before(o.At) && a.At.Before(o.end().Add(window))
			}), "one was refused at %v, when no window was open", a.At)
		}
	}
}

// installArtillery returns the program from the repository's .cache, where npm puts it the first time.
func installArtillery(t *testing.T) string {
	t.Helper()
	root, err := gateway.Root()
	require.NoError(t, err)
	folder := filepath.Join(root, ".cache", "artillery-"+artilleryVersion)
	program := filepath.Join(folder, "node_modules", ".bin", "artillery")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		missing(t, "Artillery, which npm installs", "apt-get install npm")
	}
	// Into a folder of its own, renamed when whole. No scripts: one of them would fetch a browser.
	require.NoError(t, os.MkdirAll(filepath.Join(root, ".cache"), 0o755))
	draft, err := os.MkdirTemp(filepath.Join(root, ".cache"), "artillery-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(draft) })
	t.Logf("installing Artillery %s", artilleryVersion)
	install := exec.CommandContext(t.Context(), npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
		"--prefix", draft, "artillery@"+artilleryVersion)
	said, err := install.CombinedOutput()
	require.NoError(t, err, "%s", said)
	if err := os.Rename(draft, folder); err != nil {
		_, err = os.Stat(program) // somebody else was faster
		require.NoError(t, err)
	}
	return program
}
