package sluice

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Numbers and durations as operators write them. Every option that holds one is a string in Config and is parsed
// here, because providers and Traefik's decoder change numbers on their way: 010 would become 8, and 0.5 from a
// Kubernetes resource 0.

// maxDecimals is how many decimals a number may have: as many as survive the way through a YAML or TOML file.
const maxDecimals = 6

// decimal is a positive number without rounding: digits/scale, with scale a power of ten up to 10^maxDecimals.
type decimal struct {
	digits, scale int64
}

// ceil is the smallest whole number that is not less than d.
func (d decimal) ceil() int64 { return (d.digits-1)/d.scale + 1 }

var (
	errNotPositive   = errors.New("must be more than 0")
	errTooLarge      = errors.New("is too large, the most is 1000000000000")
	errPeriodTooLong = errors.New("is too long, the most is 87600h")
)

// parseDecimal reads a number above 0 and up to maxTokens, written in plain digits. Leading zeros mean nothing.
func parseDecimal(text string) (decimal, error) {
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	if whole+fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return decimal{}, errors.New("is not a number")
	}
	whole = strings.TrimLeft(whole, "0")
	fraction = strings.TrimRight(fraction, "0")
	if whole+fraction == "" || text[0] == '-' {
		return decimal{}, errNotPositive
	}
	if len(fraction) > maxDecimals {
		return decimal{}, errors.New("has more than 6 decimals")
	}
	d := decimal{scale: 1}
	for i := 0; i < len(fraction); i++ {
		d.scale *= 10
	}
	var err error
	d.digits, err = strconv.ParseInt(whole+fraction, 10, 64)
	if err != nil || d.ceil() > maxTokens {
		return decimal{}, errTooLarge
	}
	return d, nil
}

// parseWhole reads a whole number from 1 to maxTokens.
func parseWhole(text string) (int64, error) {
	d, err := parseDecimal(text)
	if err != nil {
		return 0, err
	}
	if d.scale != 1 {
		return 0, errors.New("must be a whole number")
	}
	return d.digits, nil
}

// parseDuration reads a duration, in nanoseconds, from 1us to maxPeriod: in Go's notation, such as 1h30m, or as a
// number of seconds.
func parseDuration(text string) (int64, error) {
	seconds, err := parseDecimal(text)
	if errors.Is(err, errNotPositive) {
		return 0, err
	}
	if errors.Is(err, errTooLarge) {
		return 0, errPeriodTooLong
	}
	var d int64
	switch {
	case err == nil && seconds.ceil() > maxPeriod/second:
		d = maxPeriod + 1
	case err == nil:
		d = seconds.digits * (second / seconds.scale)
	default:
		var parsed time.Duration
		parsed, err = time.ParseDuration(text)
		d = int64(parsed)
	}
	switch {
	case err != nil && isNumberWithUnit(text):
		return 0, errPeriodTooLong
	case err != nil:
		return 0, errors.New("is not a duration")
	case d <= 0:
		return 0, errNotPositive
	case d < second/1_000_000:
		return 0, errors.New("is too short, the least is 1us")
	case d > maxPeriod:
		return 0, errPeriodTooLong
	}
	return d, nil
}

// isNumberWithUnit says whether text is a plain number and a unit, such as 9999999h: if that is no duration, then
// because it is too long.
func isNumberWithUnit(text string) bool {
	number := strings.TrimRight(text, "hmsun")
	_, err := parseDecimal(number)
	return number != text && (err == nil || errors.Is(err, errTooLarge))
}
