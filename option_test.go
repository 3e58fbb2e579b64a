package sluice

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDefaults is what an operator gets who writes nothing but a number.
func TestDefaults(t *testing.T) {
	r, err := compile(&Config{Average: "2.5"}, t.Name())
	require.NoError(t, err)
	require.Len(t, r.limits, 1)
	l := r.limits[0]
	require.Equal(t, "limit-1", l.name)
	require.True(t, l.byIP)
	require.Equal(t, int64(1), l.cost)
	require.False(t, l.dryRun)
	require.Equal(t, smoothBucket, l.numbers.policy.kind)
	require.Equal(t, int64(3), l.numbers.policy.size, "burst")
	require.Equal(t, int64(400*time.Millisecond), l.numbers.policy.token, "period")
	require.Equal(t, int64(100_000), l.numbers.maxKeys)
	require.Equal(t, 64, r.client.subnet)
	require.False(t, r.client.forwarded)
	require.Equal(t, headerStyles{xRateLimit: true}, r.styles)
	require.True(t, r.exempt.preflight)
	require.False(t, r.replace)

	r, err = compile(&Config{Limits: []LimitConfig{{Requests: "5", Window: "10"}, {Name: "named", Average: "1", Refill: "interval"}}}, t.Name())
	require.NoError(t, err)
	require.Equal(t, "limit-1", r.limits[0].name)
	require.Equal(t, firstWindow, r.limits[0].numbers.policy.kind)
	require.Equal(t, 10*second, r.limits[0].numbers.policy.period)
	require.Equal(t, "named", r.limits[1].name)
	require.Equal(t, intervalBucket, r.limits[1].numbers.policy.kind)
}

// TestNothingIsKeptOfAMistake: counters come only when all of the options are right.
func TestNothingIsKeptOfAMistake(t *testing.T) {
	good := LimitConfig{Requests: "5", Window: "1h"}
	before := len(registry.tables)
	_, err := compile(&Config{Limits: []LimitConfig{good, {Requests: "none", Window: "1h"}}}, t.Name())
	require.Error(t, err)
	require.Len(t, registry.tables, before)
}

func TestBoolean(t *testing.T) {
	const spaced = " true "
	for text, want := range map[string]bool{spaced: true, "true": true, "TRUE": true, "1": true, "false": false, "False": false, "0": false} {
		for _, otherwise := range []bool{true, false} {
			got, err := boolean("x", text, otherwise)
			require.NoError(t, err)
			require.Equal(t, want, got, text)
		}
	}
	for _, otherwise := range []bool{true, false} {
		got, err := boolean("x", " ", otherwise)
		require.NoError(t, err)
		require.Equal(t, otherwise, got)
	}
	_, err := boolean("x", "on", true)
	require.Error(t, err)
}

func TestList(t *testing.T) {
	require.Equal(t, []string{"a", "b c"}, list([]string{" a ", "", "b c\n", "  "}))
	require.Empty(t, list(nil))
	require.Empty(t, list([]string{""}))
}

func TestPrefixes(t *testing.T) {
	got, err := prefixes("x", []string{"192.0.2.1", " 10.1.2.3/8", "2001:db8::1", "2001:db8::1/32", "::ffff:192.0.2.2", "::ffff:172.16.5.5/108", "fe80::1%eth0", ""})
	require.NoError(t, err)
	var texts []string
	for _, prefix := range got {
		texts = append(texts, prefix.String())
	}
	require.Equal(t, []string{"192.0.2.1/32", "10.0.0.0/8", "2001:db8::1/128", "2001:db8::/32", "192.0.2.2/32", "172.16.0.0/12", "fe80::1/128"}, texts)
}

func TestDistance(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"abc", "xabc", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 2},
	} {
		require.Equal(t, row.want, distance(row.a, row.b), "%s, %s", row.a, row.b)
		require.Equal(t, row.want, distance(row.b, row.a), "%s, %s", row.b, row.a)
	}
}

// TestEveryOptionIsGuarded: every struct below Config catches unknown options, and every option has the name that
// errors give it. A struct without would drop a misspelt option silently.
func TestEveryOptionIsGuarded(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(s reflect.Type)
	look = func(s reflect.Type) {
		for s.Kind() == reflect.Pointer || s.Kind() == reflect.Slice {
			s = s.Elem()
		}
		if s.Kind() != reflect.Struct || seen[s] {
			return
		}
		seen[s] = true
		unknown, found := s.FieldByName("Unknown")
		require.True(t, found, "%s has no field Unknown", s)
		require.Equal(t, ",remain", unknown.Tag.Get("mapstructure"), s)
		require.Equal(t, reflect.TypeOf(map[string]any{}), unknown.Type, s)
		for i := 0; i < s.NumField(); i++ {
			field := s.Field(i)
			if field.Name != "Unknown" {
				require.True(t, strings.EqualFold(field.Name, optionName(field)), "%s.%s is the option %q to the decoder, and %q in errors", s, field.Name, strings.ToLower(field.Name), optionName(field))
				look(field.Type)
			}
		}
	}
	look(reflect.TypeOf(Config{}))
	require.Greater(t, len(seen), 8)
}
