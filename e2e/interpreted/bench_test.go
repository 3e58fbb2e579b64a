package sluice_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a request costs, interpreted. The floor is a plugin that only calls the next handler; compare with it, in the same run:
//
//	go test ./interpreted -run xxx -bench . -count 5

func BenchmarkFloor(b *testing.B) { benchmark(b, other(b, "floor")) }

func BenchmarkNaive(b *testing.B) { benchmark(b, other(b, "naive")) }

func BenchmarkOneBucketByAddress(b *testing.B) { benchmark(b, made(b, plenty())) }

func BenchmarkOneWindowByHeader(b *testing.B) {
	benchmark(b, made(b, map[string]any{"requests": 1_000_000_000, "window": "1h", "key": "header:X-Api-Key"}))
}

func BenchmarkThreeLimits(b *testing.B) { benchmark(b, made(b, plenty(), plenty(), plenty())) }

func BenchmarkRefused(b *testing.B) {
	benchmark(b, made(b, map[string]any{"average": 1, "period": "10h"}))
}

// plenty is a bucket that refuses nobody.
func plenty() map[string]any { return map[string]any{"average": 1_000_000_000, "burst": 1000} }

// made is a handler of the plugin with these limits.
func made(b *testing.B, limits ...any) http.Handler {
	h, err := build(map[string]any{"limits": limits, "log": map[string]any{"level": "none"}}, nothing, b.Name())
	require.NoError(b, err)
	return h
}

// other is a handler of a plugin in testdata.
func other(b *testing.B, name string) http.Handler {
	goPath, err := filepath.Abs("testdata")
	require.NoError(b, err)
	p, err := load(goPath, name, name)
	require.NoError(b, err)
	h, err := p.build(map[string]any{}, nothing, name)
	require.NoError(b, err)
	return h
}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// unread is a ResponseWriter whose header is one map for all requests, the same for all benchmarks.
type unread struct{ header http.Header }

func (u *unread) Header() http.Header         { return u.header }
func (u *unread) Write(b []byte) (int, error) { return len(b), nil }
func (u *unread) WriteHeader(int)             {}

func benchmark(b *testing.B, h http.Handler) {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr = "203.0.113.77:51234"
	req.Header.Set("X-Api-Key", "c29tZSBrZXkgb3Igb3RoZXI")
	rw := &unread{header: http.Header{}}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		h.ServeHTTP(rw, req)
	}
}
