package sluice_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestReadme loads every configuration in the README, and every example in its tables of options.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	text = regexp.MustCompile(`redis[-0-9]*:6379`).ReplaceAll(text, []byte("127.0.0.1:1")) // nobody is to be asked

	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	loaded := 0
	for _, block := range blocks {
		var file map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(block[1]), &file), block[1])
		for _, options := range pluginOptions(file) {
			_, err := build(options, nothing, "readme")
			require.NoError(t, err, block[1])
			loaded++
		}
	}
	require.Greater(t, loaded, 2, "the README shows configurations")

	loaded = 0
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 4 {
			continue
		}
		example := regexp.MustCompile("`([^`]+: [^`]+)`").FindStringSubmatch(cells[3])
		if example == nil {
			continue
		}
		var options map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(example[1]), &options), line)
		require.NoError(t, buildAny(options), line)
		loaded++
	}
	require.Greater(t, loaded, 20, "the README's tables show an example of each option")
}

// pluginOptions finds the options of Sluice, wherever they stand in a configuration.
func pluginOptions(node any) []map[string]any {
	var found []map[string]any
	switch n := node.(type) {
	case map[string]any:
		for key, child := range n {
			if options, ok := child.(map[string]any); ok && key == "sluice" && options["moduleName"] == nil {
				found = append(found, options)
				continue
			}
			found = append(found, pluginOptions(child)...)
		}
	case []any:
		for _, child := range n {
			found = append(found, pluginOptions(child)...)
		}
	}
	return found
}

// buildAny builds a handler with an example's option, which may stand beside a limit at the top, in a bucket, in a window, or beside average.
func buildAny(options map[string]any) error {
	bucket := map[string]any{"average": 10, "burst": 20, "match": map[string]any{"paths": "/users/{id}"}}
	window := map[string]any{"requests": 100, "window": "1m", "key": "header:X-Plan"}
	var first error
	for _, setting := range []map[string]any{
		completed(options, map[string]any{"average": 10}),
		completed(options, map[string]any{"limits": []any{map[string]any{"average": 10}}}),
		{"limits": []any{completed(options, bucket)}},
		{"limits": []any{completed(options, window)}},
	} {
		_, err := build(setting, nothing, "readme-option")
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// completed is defaults, replaced and completed by options.
func completed(options, defaults map[string]any) map[string]any {
	all := map[string]any{}
	for key, value := range defaults {
		all[key] = value
	}
	for key, value := range options {
		all[key] = value
	}
	return all
}
