package sluice_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// discard is a ResponseWriter whose header map is used again, as a server's is not; the same for all benchmarks.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

var backend = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func BenchmarkFloor(b *testing.B) {
	goPath, err := filepath.Abs("testdata")
	require.NoError(b, err)
	p, err := load(goPath, "floor", "floor")
	require.NoError(b, err)
	h, err := p.build(map[string]any{}, backend, "floor")
	require.NoError(b, err)
	benchmark(b, h)
}

func BenchmarkOneBucketByIP(b *testing.B) {
	h, err := build(map[string]any{"average": 1_000_000_000, "burst": 1000}, backend, b.Name())
	require.NoError(b, err)
	benchmark(b, h)
}

func BenchmarkOneBucketGeneral(b *testing.B) {
	h, err := build(map[string]any{"limits": []any{
		map[string]any{"average": 1_000_000_000, "burst": 1000},
		map[string]any{"average": 1_000_000_000, "burst": 1000}}}, backend, b.Name())
	require.NoError(b, err)
	benchmark(b, h)
}

func BenchmarkRefused(b *testing.B) {
	h, err := build(map[string]any{"average": 1, "period": "10h"}, backend, b.Name())
	require.NoError(b, err)
	benchmark(b, h)
}

func benchmark(b *testing.B, h http.Handler) {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr = "203.0.113.77:51234"
	rw := &discard{header: http.Header{}}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		h.ServeHTTP(rw, req)
	}
}
