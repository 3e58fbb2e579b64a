package sluice_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What stands in Traefik's log about refusals. (It is not tested interpreted: the interpreter has an output of its
// own. e2e looks into Traefik's log itself.)

// logged is the lines at DEBUG and at ERROR, which a plugin writes by print and by log, while act ran.
func logged(t *testing.T, act func()) (debug, loud []string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	var errors bytes.Buffer
	stdout, flags := os.Stdout, log.Flags()
	os.Stdout = file
	log.SetOutput(&errors)
	log.SetFlags(0)
	defer func() {
		os.Stdout = stdout
		log.SetOutput(os.Stderr)
		log.SetFlags(flags)
	}()
	act()
	text, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	return lines(string(text)), lines(errors.String())
}

// reporting is a handler as named makes them, which does not keep quiet for the tests' sake.
func reporting(t *testing.T, o options, name string) http.Handler {
	t.Helper()
	h, err := build(o, service, name)
	require.NoError(t, err)
	return h
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func TestLogIsOneLineALimitAndInterval(t *testing.T) {
	middleware := fresh(t)
	h := reporting(t, limits(
		window(1, "name", "per-ip", "match", options{"methods": "GET"}),
		window(1, "name", "posts", "match", options{"methods": "POST"}),
	), middleware)
	debug, loud := logged(t, func() {
		for i := 0; i < 100; i++ {
			send(h, get("/"))
			send(h, post("/", ""))
		}
	})
	require.Empty(t, loud)
	require.Equal(t, []string{
		"sluice: " + middleware + ": the limit per-ip refused 1 request, most of 192.0.2.1 (1)",
		"sluice: " + middleware + ": the limit posts refused 1 request, most of 192.0.2.1 (1)",
	}, debug)
}

// TestLogCounts: the next line says how many there were since the last one, and whose.
func TestLogCounts(t *testing.T) {
	middleware := fresh(t)
	const interval = 100 * time.Millisecond
	h := reporting(t, with(limits(window(1, "name", "by-path", "key", "path")), "log", options{"interval": interval.String()}), middleware)
	refuse := func(path string, times int) {
		for i := 0; i <= times; i++ { // the first one passes
			send(h, get(path))
		}
	}
	debug, _ := logged(t, func() {
		send(h, get("/first"))
		send(h, get("/first"))
		began := time.Now()
		for i, times := range []int{3, 7, 1, 5, 4, 2} {
			refuse(fmt.Sprintf("/%d", i), times)
		}
		if time.Since(began) > interval/2 {
			t.Skip("the machine is too busy")
		}
		time.Sleep(interval)
		send(h, get("/first"))
		time.Sleep(interval)
		send(h, get("/first"))
	})
	begin := "sluice: " + middleware + ": the limit by-path refused "
	require.Equal(t, []string{
		begin + `1 request, most of "/first" (1)`,
		begin + `23 requests in 0 s, most of "/1" (7), "/3" (5), "/4" (4), "/0" (3), "/5" (2)`,
		begin + `1 request in 0 s, most of "/first" (1)`,
	}, debug)
}

// TestLogOfManyKeys: in a flood from everywhere all refusals are counted, and few keys are named.
func TestLogOfManyKeys(t *testing.T) {
	many := reporting(t, with(limits(window(1, "key", "path")), "log", options{"interval": "200ms"}), fresh(t))
	debug, _ := logged(t, func() {
		for i := 0; i < 1000; i++ {
			send(many, get(fmt.Sprintf("/%d", i)))
			send(many, get(fmt.Sprintf("/%d", i)))
		}
		time.Sleep(200 * time.Millisecond)
		send(many, get("/1"))
	})
	total := 0
	for _, line := range debug {
		var count int
		_, refused, _ := strings.Cut(line, " refused ")
		_, err := fmt.Sscan(refused, &count)
		require.NoError(t, err, line)
		total += count
		require.LessOrEqual(t, strings.Count(line, "("), 5, line)
	}
	require.Equal(t, 1001, total)
}

// TestLogHasNoSecrets: what may be a credential or personal stands there as a part of its hash only, the same for the
// same key.
func TestLogHasNoSecrets(t *testing.T) {
	const secret = "s3cret"
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(secret+":"+secret))
	bearer := "Bearer " + token(`{"sub":"`+secret+`"}`)
	for key, ask := range map[any]func() *http.Request{
		"header:X-Key":                           func() *http.Request { return get("/", "X-Key", secret) },
		"cookie:sid":                             func() *http.Request { return get("/", "Cookie", "sid="+secret) },
		"query:key":                              func() *http.Request { return get("/?key=" + secret) },
		"jwt:sub":                                func() *http.Request { return get("/", "Authorization", bearer) },
		"basic":                                  func() *http.Request { return get("/", "Authorization", basic) },
		"body:email":                             func() *http.Request { return post("/", `{"email":"`+secret+`"}`) },
		"path, header:X-Key, lower:header:X-Key": func() *http.Request { return get("/", "X-Key", secret) },
	} {
		for _, each := range []bool{false, true} {
			h := reporting(t, with(limits(window(1, "key", key)), "log", options{"each": each, "interval": "1us"}), fresh(t))
			debug, loud := logged(t, func() {
				for i := 0; i < 4; i++ {
					response := send(h, ask())
					require.NotContains(t, bodyOf(t, response)+fmt.Sprint(response.Header), secret)
				}
			})
			require.Empty(t, loud)
			require.Len(t, debug, 3, key)
			for _, line := range debug {
				require.NotContains(t, line, secret)
				require.NotContains(t, line, strings.TrimPrefix(basic, "Basic "))
				require.Regexp(t, ` of #[0-9a-f]{8}( \(1\))?$`, line)
				require.Equal(t, shown(debug[0]), shown(line))
			}
		}
	}
}

// shown is the key in a line.
func shown(line string) string {
	_, key, _ := strings.Cut(line, "#")
	return key[:8]
}

// TestLogIsOneLine, whatever a client sends.
func TestLogIsOneLine(t *testing.T) {
	h := reporting(t, with(limits(window(1, "key", "path")), "log", options{"each": true}), fresh(t))
	for path, want := range map[string]string{
		"/a%0Asluice:%20forged": `"/a\nsluice: forged"`,
		"/%1b[31m":              `"/\x1b[31m"`,
		"/%22%20(9)":            `"/\" (9)"`,
		"/%ff":                  `"/\xff"`,
	} {
		debug, _ := logged(t, func() { send(h, get(path)); send(h, get(path)) })
		require.Len(t, debug, 1)
		require.True(t, strings.HasSuffix(debug[0], " of "+want), debug[0])
	}
	long := "/" + strings.Repeat("x", 10_000)
	debug, _ := logged(t, func() { send(h, get(long)); send(h, get(long)) })
	require.Less(t, len(debug[0]), 200, "a key of any length is short there")
}

func TestLogEach(t *testing.T) {
	middleware := fresh(t)
	h := reporting(t, with(limits(window(1, "name", "per-ip")), "log", options{"each": "true"}), middleware)
	debug, loud := logged(t, func() {
		require.Equal(t, []int{200, 429, 429}, statuses(h, 3, alice))
		require.Equal(t, []int{200, 429}, statuses(h, 2, "[2001:db8::1]:1"))
	})
	begin := "sluice: " + middleware + ": the limit per-ip refused a request of "
	require.Equal(t, []string{begin + "192.0.2.1", begin + "192.0.2.1", begin + "2001:db8::"}, debug)
	require.Empty(t, loud)
}

func TestLogLevels(t *testing.T) {
	for level, want := range map[string][2]int{"": {1, 0}, "debug": {1, 0}, "error": {0, 1}, "none": {0, 0}} {
		for _, each := range []bool{false, true} {
			h := reporting(t, with(limits(window(1)), "log", options{"level": level, "each": each}), fresh(t))
			debug, loud := logged(t, func() { statuses(h, 2, alice) })
			require.Len(t, debug, want[0], level)
			require.Len(t, loud, want[1], level)
		}
	}
}

func TestLogOfDryRun(t *testing.T) {
	middleware := fresh(t)
	h := reporting(t, limits(window(1, "name", "tried", "dryRun", true)), middleware)
	debug, _ := logged(t, func() { require.Equal(t, []int{200, 200, 200}, statuses(h, 3, alice)) })
	require.Equal(t, []string{"sluice: " + middleware + ": the limit tried, in dry run, would have refused 1 request, most of 192.0.2.1 (1)"}, debug)
}

// TestLogOfMissingKeys: a refusal of someone who has no key says so.
func TestLogOfMissingKeys(t *testing.T) {
	h := reporting(t, with(limits(window(1, "key", "header:X-Key")), "log", options{"each": true}), fresh(t))
	debug, _ := logged(t, func() { statuses(h, 2, alice) })
	require.Len(t, debug, 1)
	require.True(t, strings.HasSuffix(debug[0], " of no key, 192.0.2.1"), debug[0])
}

// TestLogOfForgottenKeys: an operator hears when there was too little room to count all.
func TestLogOfForgottenKeys(t *testing.T) {
	h := reporting(t, with(limits(window(1, "key", "path")), "maxKeys", 10, "log", options{"interval": "1us"}), fresh(t))
	debug, _ := logged(t, func() {
		for i := 0; i < 15; i++ {
			send(h, get(fmt.Sprintf("/%d", i)))
		}
		send(h, get("/14"))
		send(h, get("/14"))
	})
	require.Len(t, debug, 2)
	require.True(t, strings.HasSuffix(debug[0], "; 5 keys were forgotten too early for lack of room, raise maxKeys"), debug[0])
	require.NotContains(t, debug[1], "forgotten")
}

// TestNothingIsLogged where nothing is refused.
func TestNothingIsLogged(t *testing.T) {
	debug, loud := logged(t, func() {
		for _, o := range everyAlgorithm {
			statuses(reporting(t, o, fresh(t)), 2, alice)
		}
	})
	require.Empty(t, debug)
	require.Empty(t, loud)
}

func TestLogMistakes(t *testing.T) {
	for _, row := range []struct {
		log  options
		want string
	}{
		{options{"level": "info"}, `log.level: "info" is not a level that a plugin can log at; write debug, error or none`},
		{options{"interval": "often"}, `log.interval: "often" is not a duration; write a duration, such as 10s, 1m30s or 24h`},
		{options{"interval": 0}, `log.interval: "0" must be more than 0; write a duration, such as 10s, 1m30s or 24h`},
		{options{"each": "no"}, `log.each: "no" is neither true nor false; write true or false`},
		{options{"levels": "debug"}, `log.levels: there is no such option; did you mean level?`},
	} {
		require.Equal(t, "sluice: "+row.want, mistake(t, options{"average": 1, "log": row.log}))
	}
}
