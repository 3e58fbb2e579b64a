package sluice_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestPackageLoads: Yaegi takes the whole package. It compiles every file on import, so nothing in it can be missing from what Yaegi knows.
func TestPackageLoads(t *testing.T) {
	p, err := sluice()
	require.NoError(t, err)
	require.True(t, p.newHandler.IsValid())
	require.True(t, p.createConfig.IsValid())
}

// TestCatalogue does with .traefik.yml what Traefik's plugin catalogue does.
func TestCatalogue(t *testing.T) {
	text, err := os.ReadFile("../../.traefik.yml")
	require.NoError(t, err)
	var manifest struct {
		DisplayName string         `yaml:"displayName"`
		Type        string         `yaml:"type"`
		Import      string         `yaml:"import"`
		Summary     string         `yaml:"summary"`
		TestData    map[string]any `yaml:"testData"`
	}
	require.NoError(t, yaml.Unmarshal(text, &manifest))
	require.NotEmpty(t, manifest.DisplayName)
	require.NotEmpty(t, manifest.Summary)
	require.Equal(t, "middleware", manifest.Type)
	require.Equal(t, modulePath, manifest.Import)
	require.NotEmpty(t, manifest.TestData)
	require.Equal(t, http.StatusOK, send(limited(t, manifest.TestData), request(alice)).StatusCode)
}

// TestAllocations holds the cost of a request where it is. Allocations are what interpreted code spends its time on, and unlike time they can be
// counted exactly. A bound may be lowered; raising one wants a reason.
func TestAllocations(t *testing.T) {
	for _, row := range []struct {
		name    string
		options options
		most    float64
	}{
		{"one bucket by address", options{"average": 1_000_000_000, "burst": 1000}, 76},
		{"one window by address", options{"limits": []any{options{"requests": 1_000_000, "window": "1h"}}}, 422},
		{"refused", options{"average": 1, "period": "24h"}, 169}, // one of them asks whether the counters are shared
	} {
		h, err := build(quiet(row.options), nothing, fresh(t))
		require.NoError(t, err)
		req := request(alice)
		rw := &unread{header: http.Header{}}
		for i := 0; i < 100; i++ { // a long-lived connection
			h.ServeHTTP(rw, req)
		}
		count := testing.AllocsPerRun(640, func() { h.ServeHTTP(rw, req) })
		require.LessOrEqual(t, count, row.most, row.name)
	}
}
