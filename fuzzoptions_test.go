package sluice

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// set writes an option as a label would, at a path such as limits.0.key.
func set(v reflect.Value, path []string, value string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(value)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		set(v.Elem(), path, value)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.ValueOf(strings.Split(value, ",")))
			return
		}
		i, _ := strconv.Atoi(path[0])
		for v.Len() <= i {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		}
		set(v.Index(i), path[1:], value)
	case reflect.Struct:
		for i := 0; i < v.NumField(); i++ {
			if optionName(v.Type().Field(i)) == path[0] {
				set(v.Field(i), path[1:], value)
				return
			}
		}
	}
}

// paths lists all options below a type, with 0 for the first item of each list.
func paths(t reflect.Type, prefix string) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return paths(t.Elem(), prefix)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.String {
			return paths(t.Elem(), prefix+"0.")
		}
	case reflect.Struct:
		var all []string
		for i := 0; i < t.NumField(); i++ {
			if name := optionName(t.Field(i)); name != "-" && name != "redis" { // no connections from here
				all = append(all, paths(t.Field(i).Type, prefix+name+".")...)
			}
		}
		return all
	}
	return []string{strings.TrimSuffix(prefix, ".")}
}

// namesOption is how every error about an option begins.
var namesOption = regexp.MustCompile(`^sluice: (([a-zA-Z0-9]+(\[\d\])?\.)*[a-zA-Z0-9]+(\[\d\])?(:| has | is | stand | stands | changes | with )|the limit |there is no limit; write average|average, period and burst )`)

// FuzzOptions: arbitrary text in any two options is taken, or refused with an error that names an option; and what is
// taken serves.
func FuzzOptions(f *testing.F) {
	all := paths(reflect.TypeOf(Config{}), "")
	bases := []string{
		"",
		"average=10 period=1m",
		"limits.0.requests=5 limits.0.window=1h30m",
		"limits.0.average=0.5 limits.0.match.paths=/a/{id},/b/ limits.0.key=pattern limits.1.requests=1 limits.1.window=1s limits.1.key=header:A,ip",
		"limits.0.requests=9 limits.0.window=1s limits.0.costs.0.match.methods=GET limits.0.costs.0.cost=0 limits.0.overrides.0.key=192.0.2.1 limits.0.overrides.0.requests=3",
	}
	for i, value := range []string{"10", "1h30m", "0020", "0.5", "clock", "ip, header:X-A ,jwt:a.b", "/a/{id},/b/{rest...}", "10.0.0.0/8,::1", "true", "ietf", "a\nb", "{policy}", "-"} {
		for j := 0; j < len(all); j += 7 {
			f.Add(i, (i+j)%len(all), value, j, value)
		}
	}
	f.Fuzz(func(t *testing.T, base, one int, value string, other int, otherValue string) {
		config := CreateConfig()
		config.Log = &LogConfig{Level: "none"} // or it fills the test's output
		write := func(path, value string) { set(reflect.ValueOf(config).Elem(), strings.Split(path, "."), value) }
		for _, option := range strings.Fields(bases[uint(base)%uint(len(bases))]) {
			path, value, _ := strings.Cut(option, "=")
			write(path, value)
		}
		write(all[uint(one)%uint(len(all))], value)
		write(all[uint(other)%uint(len(all))], otherValue)
		registry.mu.Lock()
		clear(registry.tables) // or they would be as many as there are inputs
		registry.mu.Unlock()
		h, err := New(context.Background(), http.NotFoundHandler(), config, "fuzz")
		if err != nil {
			require.Regexp(t, namesOption, err.Error())
			require.NotContains(t, err.Error(), "\n")
			return
		}
		for _, target := range []string{"/", "/a/1?x=y", "/b//%2e%2e"} {
			req := httptest.NewRequest(http.MethodGet, target, strings.NewReader(`{"a":"b"}`))
			recorder := httptest.NewRecorder()
			h.ServeHTTP(recorder, req)
			require.GreaterOrEqual(t, recorder.Code, 400)
			require.Less(t, recorder.Code, 600)
		}
	})
}
