package sluice

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseDecimal(t *testing.T) {
	for text, want := range map[string]decimal{
		"1":                 {1, 1},
		"10":                {10, 1},
		"010":               {10, 1}, // ten, as everybody but C reads it
		"08":                {8, 1},
		"0.5":               {5, 10},
		".5":                {5, 10},
		"5.":                {5, 1},
		"00.50":             {5, 10},
		"2.500000000":       {25, 10},
		"0.000001":          {1, 1_000_000},
		"1000000000000":     {maxTokens, 1},
		"0001000000000000":  {maxTokens, 1},
		"999999999999.9999": {9_999_999_999_999_999, 10_000},
	} {
		d, err := parseDecimal(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d, text)
	}
}

func TestParseDecimalMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "is not a number",
		".":                         "is not a number",
		"-":                         "is not a number",
		"ten":                       "is not a number",
		"1e3":                       "is not a number",
		"+1":                        "is not a number",
		"--1":                       "is not a number",
		"1,5":                       "is not a number",
		"1_000":                     "is not a number",
		"0x10":                      "is not a number",
		"1.2.3":                     "is not a number",
		"1 0":                       "is not a number",
		"١":                         "is not a number", // an Arabic digit
		"0":                         "must be more than 0",
		"0.000":                     "must be more than 0",
		"-0":                        "must be more than 0",
		"-1":                        "must be more than 0",
		"-99999999999999999999":     "must be more than 0",
		"0.0000001":                 "has more than 6 decimals",
		"1000000000001":             "is too large, the most is 1000000000000",
		"1000000000000.1":           "is too large, the most is 1000000000000",
		"99999999999999999999":      "is too large, the most is 1000000000000",
		strings.Repeat("9", 10_000): "is too large, the most is 1000000000000",
	} {
		_, err := parseDecimal(text)
		require.EqualError(t, err, want, text)
	}
}

func TestCeil(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "0.000001": 1, "1.000001": 2, "2.5": 3, "999999999999.5": maxTokens, "1000000000000": maxTokens} {
		d, err := parseDecimal(text)
		require.NoError(t, err)
		require.Equal(t, want, d.ceil(), text)
	}
}

func TestParseWhole(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "010": 10, "20.0": 20, "1000000000000": maxTokens} {
		n, err := parseWhole(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for text, want := range map[string]string{"1.5": "must be a whole number", "0": "must be more than 0", "x": "is not a number"} {
		_, err := parseWhole(text)
		require.EqualError(t, err, want, text)
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90":        90 * time.Second,
		"010":       10 * time.Second,
		"0.5":       500 * time.Millisecond,
		"0.000001":  time.Microsecond,
		"1us":       time.Microsecond,
		"1µs":       time.Microsecond,
		"90s":       90 * time.Second,
		"1m30s":     90 * time.Second,
		"1h30m":     90 * time.Minute,
		"1.5h":      90 * time.Minute,
		"250ms":     250 * time.Millisecond,
		"87600h":    time.Duration(maxPeriod),
		"315360000": time.Duration(maxPeriod),
	} {
		d, err := parseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, time.Duration(d), text)
	}
}

func TestParseDurationMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":            "is not a duration",
		"soon":        "is not a duration",
		"1d":          "is not a duration",
		"1 h":         "is not a duration",
		"0":           "must be more than 0",
		"0s":          "must be more than 0",
		"-1":          "must be more than 0",
		"-1h":         "must be more than 0",
		"999ns":       "is too short, the least is 1us",
		"87600h1ns":   "is too long, the most is 87600h",
		"315360000.5": "is too long, the most is 87600h",
		"315360001":   "is too long, the most is 87600h",
		"9000000000":  "is too long, the most is 87600h",
	} {
		_, err := parseDuration(text)
		require.EqualError(t, err, want, text)
	}
}

// FuzzDecimal: whatever is accepted is the number that math/big reads there, and within bounds.
func FuzzDecimal(f *testing.F) {
	for _, seed := range []string{"1", "010", "0.5", ".5", "5.", "-1", "1e3", "1000000000000", "0.0000001", "", "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDecimal(text)
		if err != nil {
			return
		}
		number, ok := new(big.Rat).SetString(strings.TrimSuffix(text, "."))
		require.True(t, ok)
		require.Zero(t, number.Cmp(big.NewRat(d.digits, d.scale)), "%s is not %v", text, d)
		require.Positive(t, d.digits)
		require.LessOrEqual(t, d.ceil(), int64(maxTokens))
		require.LessOrEqual(t, d.scale, int64(math.Pow10(maxDecimals)))
	})
}

// FuzzDuration: whatever is accepted is what time.ParseDuration reads there, with "s" behind a bare number, and
// within bounds.
func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"90", "010", "0.5", "1h30m", "1us", "-1s", "87600h", "999ns", "9000000000", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDuration(text)
		if err != nil {
			return
		}
		want, err := time.ParseDuration(text)
		if err != nil {
			want, err = time.ParseDuration(text + "s")
		}
		require.NoError(t, err)
		require.Equal(t, want, time.Duration(d))
		require.GreaterOrEqual(t, d, int64(time.Microsecond))
		require.LessOrEqual(t, d, maxPeriod)
	})
}
