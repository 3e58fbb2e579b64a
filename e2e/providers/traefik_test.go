package providers

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

// TestTraefik has the real Traefik read the spellings from files and from a key-value store, a real Redis.
func TestTraefik(t *testing.T) {
	folder := t.TempDir()
	for _, ending := range []string{"yml", "toml"} {
		text, err := os.ReadFile("testdata/spellings." + ending)
		require.NoError(t, err)
		text = bytes.ReplaceAll(text, []byte("spellings"), []byte("spellings-"+ending)) // the two are in one namespace
		require.NoError(t, os.WriteFile(filepath.Join(folder, "spellings."+ending), text, 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "routers.yml"), []byte(`
http:
  routers:
    yml: {rule: "Host(`+"`yml.localhost`"+`)", middlewares: [spellings-yml], service: noop@internal}
    toml: {rule: "Host(`+"`toml.localhost`"+`)", middlewares: [spellings-toml], service: noop@internal}
`), 0o644))
	redis := startRedis(t)
	stored := pairs(t, "testdata/pairs.txt")
	maps.Copy(stored, map[string]string{
		"traefik/http/routers/kv/rule":          "Host(`kv.localhost`)",
		"traefik/http/routers/kv/service":       "noop@internal",
		"traefik/http/routers/kv/middlewares/0": "spellings",
	})
	redis.set(t, stored)

	g, err := gateway.Start(t.Context(), gateway.Options{Args: []string{
		"--providers.file.directory=" + folder,
		"--providers.redis.endpoints=" + redis.address,
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		g.Stop()
		if t.Failed() {
			t.Logf("Traefik's log:\n%s", g.Log())
		}
	})
	for host, router := range map[string]string{"yml": "yml@file", "toml": "toml@file", "kv": "kv@redis"} {
		t.Run(host, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			found, err := g.WaitRouter(ctx, router)
			require.NoError(t, err)
			require.Equal(t, "enabled", found.Status, found.Errors)
			probe(t, func(request *http.Request) *http.Response {
				request.URL.Host = strings.TrimPrefix(g.URL("web"), "http://")
				request.Host = host + ".localhost"
				response, err := http.DefaultTransport.RoundTrip(request)
				require.NoError(t, err)
				return response
			})
		})
	}
}

// redisServer is a redis-server of the test's own.
type redisServer struct{ address string }

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	address, err := gateway.FreeAddress("127.0.0.1")
	require.NoError(t, err)
	_, port, _ := strings.Cut(address, ":")
	command := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir())
	require.NoError(t, command.Start(), "Debian's package redis-server has it")
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	r := &redisServer{address: address}
	require.Eventually(t, func() bool {
		answer, err := r.command("ping")
		return err == nil && strings.TrimSpace(answer) == "PONG"
	}, 10*time.Second, 20*time.Millisecond)
	return r
}

// command runs redis-cli.
func (r *redisServer) command(arguments ...string) (string, error) {
	_, port, _ := strings.Cut(r.address, ":")
	answer, err := exec.Command("redis-cli", append([]string{"-e", "-p", port}, arguments...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("redis-cli: %w: %s", err, answer)
	}
	return string(answer), nil
}

func (r *redisServer) set(t *testing.T, pairs map[string]string) {
	t.Helper()
	arguments := []string{"mset"}
	for key, value := range pairs {
		arguments = append(arguments, key, value)
	}
	_, err := r.command(arguments...)
	require.NoError(t, err)
}
