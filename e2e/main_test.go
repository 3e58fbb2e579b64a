// Package e2e tests Sluice where it runs: in the real Traefik, interpreted, with configuration files as a user writes them,
// spoken to over the network.
package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/backend"
	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

// TestMain builds Traefik if there is none yet, so that no test's time is spent on it.
func TestMain(m *testing.M) {
	binary, err := gateway.Binary(context.Background(), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("TRAEFIK", binary)
	os.Exit(m.Run())
}

// stage is a Traefik with one dynamic file, in front of one backend.
type stage struct {
	*gateway.Gateway
	web string // base URL of the entry point "web"

	file    string // the test's own copy of the dynamic file
	text    string // what it says, apart from the routers that edit adds
	version int    // how often edit has changed it
}

// setup says what differs from one stage to the next.
type setup struct {
	dynamic string       // the dynamic file, as a path from the repository's root
	backend http.Handler // default: the demo's
	args    []string     // more of Traefik's flags
	tls     string       // a dynamic file beside the first, with a certificate
	env     []string     // more of Traefik's environment, as "NAME=value"
	change  []string     // each odd string becomes the even one after it, wherever it stands in the dynamic file
}

// start raises a stage that lasts until the test ends. When it returns, the file's routers are in place.
func start(t *testing.T, s setup) *stage {
	t.Helper()
	if s.backend == nil {
		s.backend = backend.New(io.Discard)
	}
	root, err := gateway.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, s.dynamic))
	require.NoError(t, err)
	text = []byte(strings.NewReplacer(s.change...).Replace(string(text)))
	folder := t.TempDir()
	file := filepath.Join(folder, "dynamic.yml")
	require.NoError(t, os.WriteFile(file, text, 0o644))
	if s.tls != "" {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "tls.yml"), []byte(s.tls), 0o644))
	}

	g, err := gateway.Start(t.Context(), gateway.Options{
		Args: append([]string{
			"--providers.file.directory=" + folder,
			"--providers.providersThrottleDuration=0", // so that each change is applied at once
		}, s.args...),
		Env: append([]string{"BACKEND_URL=" + serve(t, s.backend)}, s.env...),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		g.Stop()
		if t.Failed() {
			t.Logf("Traefik's log:\n%s", g.Log())
		}
	})
	waitFor(t, "a router of "+s.dynamic, func() bool {
		routers, err := g.Routers(t.Context())
		require.NoError(t, err)
		return slices.ContainsFunc(routers, func(r gateway.Router) bool { return strings.HasSuffix(r.Name, "@file") })
	})
	return &stage{Gateway: g, web: g.URL("web"), file: file, text: string(text)}
}

// serve runs a backend that speaks HTTP/1.1 and, unencrypted, HTTP/2, and returns its base URL.
func serve(t *testing.T, handler http.Handler) string {
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// edit changes the dynamic file, each odd string into the even one after it, adds a router that has nothing to do with
// anything, and waits until Traefik serves what the file says.
func (s *stage) edit(t *testing.T, changes ...string) {
	t.Helper()
	for i := 0; i < len(changes); i += 2 {
		require.Equal(t, 1, strings.Count(s.text, changes[i]), "%q in the dynamic file", changes[i])
	}
	s.text = strings.NewReplacer(changes...).Replace(s.text)
	s.version++
	router := fmt.Sprintf("    version-%d: {rule: Path(`/version-%d`), service: noop@internal}\n", s.version, s.version)
	text := strings.Replace(s.text, "\n  routers:\n", "\n  routers:\n"+router, 1)
	require.NotEqual(t, s.text, text, "no place for another router in the dynamic file")

	// Renamed into place: Traefik must never read half of it.
	draft := filepath.Join(t.TempDir(), "draft")
	require.NoError(t, os.WriteFile(draft, []byte(text), 0o644))
	require.NoError(t, os.Rename(draft, s.file))
	waitFor(t, "the changed dynamic file", func() bool {
		return s.get(t, fmt.Sprintf("/version-%d", s.version)).status == http.StatusTeapot
	})
}

// waitFor asks every few milliseconds until the answer is yes.
func waitFor(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !yes(); time.Sleep(2 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "waited too long for %s", what)
	}
}
