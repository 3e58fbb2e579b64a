package providers

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice"
)

// What Traefik's readers make of numbers, durations and switches before the plugin sees them, and what a limit is then.

// reader reads one option, written as it is.
type reader func(t *testing.T, option, value string) (map[string]any, error)

func inYAML(t *testing.T, option, value string) (map[string]any, error) {
	return fromContent(t, "http: {middlewares: {spellings: {plugin: {sluice: {"+option+": "+value+"}}}}}", ".yml")
}

func inTOML(t *testing.T, option, value string) (map[string]any, error) {
	return fromContent(t, "[http.middlewares.spellings.plugin.sluice]\n"+option+" = "+value, ".toml")
}

func inLabel(t *testing.T, option, value string) (map[string]any, error) {
	return fromLabels(t, map[string]string{"traefik.http.middlewares.spellings.plugin.sluice." + option: value}), nil
}

func inJSON(_ *testing.T, option, value string) (options map[string]any, err error) {
	err = json.Unmarshal([]byte(`{"`+option+`":`+value+`}`), &options)
	return options, err
}

// TestNumbers: the size of a bucket that gains so much a day, or the beginning of an error.
func TestNumbers(t *testing.T) {
	for name, row := range map[string]struct {
		read reader
		want map[string]string
	}{
		"YAML": {inYAML, map[string]string{
			`10`: "10", `"10"`: "10", `"010"`: "10", `" 10 "`: "10", `10.0`: "10", `2.5`: "3", `"2.5"`: "3", `0.5`: "1", `1e3`: "1000", `1_000`: "1000",
			`010`:         "8", // YAML's octal number: nothing of the way it was written arrives. Quote it, or leave the zero out.
			`0o10`:        "8",
			`0x10`:        "16",
			`"0x10"`:      `sluice: average: "0x10" is not a number`,
			`ten`:         `sluice: average: "ten" is not a number`,
			`-1`:          `sluice: average: "-1" must be more than 0`,
			`0`:           `sluice: average: "0" must be more than 0`,
			`0.0000001`:   `sluice: average: "0" must be more than 0`, // six decimals arrive
			`"0.0000001"`: `sluice: average: "0.0000001" has more than 6 decimals`,
			`""`:          `sluice: there is no limit`,
			`~`:           `sluice: there is no limit`,
			`1e13`:        `sluice: average: "10000000000000" is too large`,
			`.inf`:        `sluice: average: "+Inf" is not a number`,
			`.nan`:        `sluice: average: "NaN" is not a number`,
			`[10]`:        `1 error(s) decoding:`,
			`{a: 10}`:     `1 error(s) decoding:`,
		}},
		"TOML": {inTOML, map[string]string{
			`10`: "10", `"10"`: "10", `"010"`: "10", `10.0`: "10", `2.5`: "3", `1e3`: "1000", `1_000`: "1000", `0x10`: "16", `0o10`: "8",
			`010`: `toml: line 2`, // there are no leading zeros in TOML
			`-1`:  `sluice: average: "-1" must be more than 0`,
		}},
		"labels": {inLabel, map[string]string{
			`10`: "10", `010`: "10", `10.0`: "10", `2.5`: "3", `0.5`: "1",
			`1e3`:   `sluice: average: "1e3" is not a number`,
			`1_000`: `sluice: average: "1_000" is not a number`,
			`0x10`:  `sluice: average: "0x10" is not a number`,
			`"10"`:  `sluice: average: "\"10\"" is not a number`,
			``:      `sluice: there is no limit`,
		}},
		"JSON": {inJSON, map[string]string{
			`10`: "10", `"10"`: "10", `"010"`: "10", `10.0`: "10", `2.5`: "3", `0.5`: "1", `1e3`: "1000",
			`null`: `sluice: there is no limit`,
			`true`: "1", // which is how the decoder writes it
		}},
	} {
		for value, want := range row.want {
			got, err := size(t, row.read, value)
			if err != nil {
				got = err.Error()
			}
			require.True(t, strings.HasPrefix(got, want), "%s: %s is %s, not %s", name, value, got, want)
			if _, err := strconv.Atoi(want); err == nil {
				require.Equal(t, want, got, "%s: %s", name, value)
			}
		}
	}
}

// size is what a client sees of `average: value` with a period of a day.
func size(t *testing.T, read reader, value string) (string, error) {
	options, err := read(t, "average", value)
	if err != nil {
		return "", err
	}
	c, err := decode(options)
	if err != nil {
		return "", err
	}
	if c.Average != "" {
		c.Period = "24h"
	}
	h, err := sluice.New(context.Background(), http.NotFoundHandler(), c, t.Name()+value)
	if err != nil {
		return "", err
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	return recorder.Header().Get("X-RateLimit-Limit"), nil
}

// TestDurationsAndSwitches arrive as they are written, or as a number of seconds, or as 1 and 0.
func TestDurationsAndSwitches(t *testing.T) {
	for value, want := range map[string]string{`1h30m`: "1h30m", `90`: "90", `"90"`: "90", `1.5`: "1.500000", `90s`: "90s", `1:30`: "1:30"} {
		options, err := inYAML(t, "period", value)
		require.NoError(t, err)
		require.Equal(t, want, config(t, options).Period, value)
	}
	for value, want := range map[string]string{`true`: "true", `"true"`: "true", `false`: "false", `yes`: "yes", `on`: "on", `1`: "1"} {
		options, err := inYAML(t, "dryRun", value)
		require.NoError(t, err)
		require.Equal(t, want, config(t, options).DryRun, value)
	}
	for value, want := range map[string]string{`true`: "1", `false`: "0", `"true"`: "true", `1`: "1"} {
		options, err := inJSON(t, "dryRun", value)
		require.NoError(t, err)
		require.Equal(t, want, config(t, options).DryRun, value)
	}
}

// TestLists: a list is a list, or text with commas; one item needs neither.
func TestLists(t *testing.T) {
	for value, want := range map[string][]string{
		`[ietf, x-ratelimit]`: {"ietf", "x-ratelimit"}, `"ietf, x-ratelimit"`: {"ietf", " x-ratelimit"}, `ietf`: {"ietf"}, `[ietf]`: {"ietf"},
		`[]`: {}, `""`: {}, `["a,b"]`: {"a,b"},
	} {
		options, err := inYAML(t, "headers", value)
		require.NoError(t, err)
		require.Equal(t, want, config(t, options).Headers, value)
	}
	// A list of one that is not written as a list.
	options, err := inYAML(t, "limits", "{requests: 5, window: 1h, key: path}")
	require.NoError(t, err)
	require.Equal(t, []string{"path"}, config(t, options).Limits[0].Key)
}

// TestEmptySections: from a file a section with nothing in it arrives as text, which is an error; one with nothing behind it does not arrive.
func TestEmptySections(t *testing.T) {
	options, err := inYAML(t, "exempt", "{}")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"exempt": ""}, options)
	_, err = decode(options)
	require.ErrorContains(t, err, "'Exempt' expected a map, got 'string'")

	options, err = inYAML(t, "average: 1, exempt", "")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"average": "1"}, options)
	options, err = inJSON(t, "exempt", "{}")
	require.NoError(t, err)
	require.NotNil(t, config(t, options).Exempt)
}
