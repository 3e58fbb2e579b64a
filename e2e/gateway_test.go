package e2e

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

// TestGatewayThatCannotStart says why, in Traefik's own words, and leaves nothing behind: the other tests, the demo and the
// measurements rely on it.
func TestGatewayThatCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()

	for name, test := range map[string]struct {
		options gateway.Options
		says    string
	}{
		"unknown flag": {gateway.Options{Args: []string{"--nonsense"}}, "nonsense"},
		"port taken":   {gateway.Options{EntryPoints: map[string]string{"web": taken.Addr().String()}}, "address already in use"},
		"no plugin":    {gateway.Options{Args: []string{"--experimental.localPlugins.other.moduleName=example.com/other"}}, "example.com/other"},
		"no such file": {gateway.Options{StaticFile: "no-such-file.yml"}, "no-such-file.yml"},
		"no entry point in the file": {
			gateway.Options{StaticFile: "../examples/demo/traefik.yml", EntryPoints: map[string]string{"other": "127.0.0.1:0"}},
			`no entry point "other"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			_, err := gateway.Start(t.Context(), test.options)
			require.ErrorContains(t, err, test.says)
			left, err := os.ReadDir(temporary)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}
