package sluice

import (
	"fmt"
	"net/netip"
	"reflect"
	"sort"
	"strings"
)

// Reading single options, and the errors about them.

// bad is the error about an option's value: what is wrong with it, and what to write instead.
func bad(path, value, problem, instead string) error {
	return fmt.Errorf("sluice: %s: %q %s; write %s", path, value, problem, instead)
}

// place names the limit at path, "limits[0]." or "" for the short form.
func place(path string) string {
	if path == "" {
		return "the limit"
	}
	return strings.TrimSuffix(path, ".")
}

// whole reads a whole number above 0.
func whole(path, value, example string) (int64, error) {
	n, err := parseWhole(strings.TrimSpace(value))
	if err != nil {
		return 0, bad(path, value, err.Error(), "a whole number, such as "+example)
	}
	return n, nil
}

// wholeOrZero reads a whole number, 0 or more.
func wholeOrZero(path, value, example string) (int64, error) {
	trimmed := strings.TrimSpace(value)
	if trimmed != "" && strings.Trim(trimmed, "0") == "" {
		return 0, nil
	}
	if strings.HasPrefix(trimmed, "-") {
		return 0, bad(path, value, "must be 0 or more", "a whole number, such as "+example)
	}
	return whole(path, value, example)
}

// duration reads a duration, in nanoseconds.
func duration(path, value string) (int64, error) {
	d, err := parseDuration(strings.TrimSpace(value))
	if err != nil {
		return 0, bad(path, value, err.Error(), "a duration, such as 10s, 1m30s or 24h")
	}
	return d, nil
}

// boolean reads a switch. Providers hand on true as true or 1.
func boolean(path, value string, otherwise bool) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "":
		return otherwise, nil
	case "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, bad(path, value, "is neither true nor false", "true or false")
}

// choice reads one of two words, and says whether it is the second. Nothing written means the first.
func choice(path, value, first, second string) (bool, error) {
	switch strings.TrimSpace(value) {
	case "", first:
		return false, nil
	case second:
		return true, nil
	}
	return false, bad(path, value, "is neither "+first+" nor "+second, first+" or "+second)
}

// list trims the items of a list and drops empty ones: labels and key-value stores write a list as "a, b".
func list(items []string) []string {
	var trimmed []string
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" {
			trimmed = append(trimmed, item)
		}
	}
	return trimmed
}

// prefixes reads addresses and CIDRs.
func prefixes(path string, items []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, item := range list(items) {
		if addr, err := netip.ParseAddr(item); err == nil {
			addr = addr.Unmap().WithZone("")
			all = append(all, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(item)
		if err != nil {
			return nil, bad(path, item, "is neither an address nor a CIDR", "an address such as 192.0.2.1 or a range such as 10.0.0.0/8")
		}
		if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}

// firstSet returns the name of the first option that has a value, of alternating names and values; "" if none has.
func firstSet(namesAndValues ...string) string {
	for i := 0; i < len(namesAndValues); i += 2 {
		if namesAndValues[i+1] != "" {
			return namesAndValues[i]
		}
	}
	return ""
}

func orDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// unknownOption looks through the options, at any depth, for names that no option has.
func unknownOption(v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return unknownOption(v.Elem(), path)
		}
	case reflect.Slice:
		for i := 0; i < v.Len(); i++ {
			if err := unknownOption(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if path != "" {
			path += "."
		}
		if !v.FieldByName("Unknown").IsValid() {
			return nil
		}
		if unknown := v.FieldByName("Unknown").MapKeys(); len(unknown) > 0 {
			sort.Slice(unknown, func(i, j int) bool { return unknown[i].String() < unknown[j].String() })
			return misspelt(path, unknown[0].String(), optionNames(v.Type()))
		}
		for i := 0; i < v.NumField(); i++ {
			if err := unknownOption(v.Field(i), path+optionName(v.Type().Field(i))); err != nil {
				return err
			}
		}
	}
	return nil
}

func misspelt(path, name string, known []string) error {
	nearest, least := "", len(name)/2+1
	for _, candidate := range known {
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if strings.HasPrefix(candidate, name) && len(name) > 3 { // status for statusCode
			d = 1
		}
		if d < least {
			nearest = candidate
			least = d
		}
	}
	if nearest != "" {
		return fmt.Errorf("sluice: %s%s: there is no such option; did you mean %s?", path, name, nearest)
	}
	return fmt.Errorf("sluice: %s%s: there is no such option; here can stand %s", path, name, strings.Join(known, ", "))
}

func optionNames(t reflect.Type) []string {
	var names []string
	for i := 0; i < t.NumField(); i++ {
		if name := optionName(t.Field(i)); name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// optionName is the option that a field of Config or below holds.
func optionName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// distance is the number of letters to insert, delete or replace between two words (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			above := row[j]
			best := diagonal
			if a[i-1] != b[j-1] {
				best = least(diagonal, above, row[j-1]) + 1
			}
			row[j] = best
			diagonal = above
		}
	}
	return row[len(b)]
}

func least(a, b, c int) int {
	if b < a {
		a = b
	}
	if c < a {
		a = c
	}
	return a
}
