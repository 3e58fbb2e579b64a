package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDemoOfAnExample runs what the examples' READMEs begin with: EXAMPLE=... make demo.
func TestDemoOfAnExample(t *testing.T) {
	t.Parallel()
	binary := buildDemo(t)
	for example, address := range map[string]string{
		"plan-tiers":   "127.0.0.1",
		"behind-proxy": "203.0.113.1", // has a static file of its own, without which this would not be believed
	} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			d := newDemo(t, binary)
			output := &recorder{}
			d.command.Stdout, d.command.Stderr = output, output
			d.command.Env = append(d.command.Env, "EXAMPLE="+example)
			require.NoError(t, d.command.Start())
			t.Cleanup(func() {
				require.NoError(t, d.command.Process.Signal(syscall.SIGTERM))
				require.NoError(t, d.command.Wait(), "%s", output)
			})
			waitFor(t, "the demo to say what to try", func() bool {
				return strings.Contains(output.String(), "examples/"+example+"/README.md")
			})
			s := &stage{web: "http://" + d.addresses[0]}
			waitFor(t, "its routes", func() bool {
				got := s.get(t, "/data", "X-Api-Key", "key-of-ann", "X-Forwarded-For", address)
				return got.status == http.StatusOK && got.header.Get("X-RateLimit-Remaining") == "4"
			})
		})
	}

	t.Run("there is none of that name", func(t *testing.T) {
		d := newDemo(t, binary)
		d.command.Env = append(d.command.Env, "EXAMPLE=nothing")
		output, err := d.command.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, "demo: EXAMPLE is \"nothing\", but examples/nothing has no dynamic.yml\n", string(output))
	})
}
