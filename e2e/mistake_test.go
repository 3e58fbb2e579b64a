package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMistake shows a bad option where an operator looks for it, Traefik's API, and that it costs only the routers that use it.
func TestMistake(t *testing.T) {
	s := start(t, setup{dynamic: "e2e/testdata/mistake.yml", backend: &yes{}})
	bad, err := s.WaitRouter(t.Context(), "bad@file")
	require.NoError(t, err)
	require.Equal(t, "disabled", bad.Status)
	require.Contains(t, strings.Join(bad.Errors, "\n"), "avarage")
	require.Contains(t, s.Log(), "avarage")
	require.Equal(t, http.StatusNotFound, s.get(t, "/bad").status)

	good, err := s.WaitRouter(t.Context(), "good@file")
	require.NoError(t, err)
	require.Equal(t, "enabled", good.Status)
	require.Equal(t, http.StatusOK, s.get(t, "/good").status)

	s.edit(t, "avarage", "average")
	require.Equal(t, "5", s.get(t, "/bad").header.Get("X-RateLimit-Limit"))
}
