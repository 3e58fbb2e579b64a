// Package docker tests examples/docker without Docker: the real Traefik, with the Docker provider as compose.yaml sets it up, reads
// the labels of compose.yaml from an engine that is a stand-in, and limits accordingly.
package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

// compose is as much of compose.yaml as is looked at here.
type compose struct {
	Services struct {
		Traefik struct {
			Command []string
			Volumes []string
		}
		Whoami struct{ Labels map[string]string }
	}
}

func TestLabels(t *testing.T) {
	file := read(t)
	whoami := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(whoami.Close)
	socket := filepath.Join(t.TempDir(), "docker.sock")
	serveEngine(t, socket, file.Services.Whoami.Labels, whoami.Listener.Addr().(*net.TCPAddr))

	arguments := []string{"--providers.docker.endpoint=unix://" + socket}
	for _, argument := range file.Services.Traefik.Command {
		if strings.HasPrefix(argument, "--providers.") { // the gateway of the tests has all the others of its own
			arguments = append(arguments, argument)
		}
	}
	g, err := gateway.Start(t.Context(), gateway.Options{Args: arguments})
	require.NoError(t, err)
	t.Cleanup(g.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	router, err := g.WaitRouter(ctx, "whoami@docker")
	require.NoError(t, err)
	require.Equal(t, "enabled", router.Status, router.Errors)

	get := func(key string) (status int, limit string) {
		request, err := http.NewRequest(http.MethodGet, g.URL("web"), nil)
		require.NoError(t, err)
		request.Host = "whoami.localhost"
		request.Header.Set("X-Api-Key", key)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		return response.StatusCode, response.Header.Get("X-RateLimit-Limit")
	}
	began := time.Now()
	for range 5 {
		status, _ := get("alice")
		require.Equal(t, http.StatusOK, status)
	}
	status, limit := get("alice")
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Equal(t, "5", limit, "alice's key")

	passed := 6 // the limit per address, which comes before the one per key
	for ; passed < 100; passed++ {
		if status, limit = get(fmt.Sprint("key-", passed)); status != http.StatusOK {
			break
		}
	}
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Equal(t, "10", limit, "the address")
	require.GreaterOrEqual(t, passed, 10)
	require.LessOrEqual(t, float64(passed), 11+5*time.Since(began).Seconds())
}

// TestPluginVolume leads from where the plugin is mounted back to this repository.
func TestPluginVolume(t *testing.T) {
	root, err := gateway.Root()
	require.NoError(t, err)
	source, mounted, _ := strings.Cut(read(t).Services.Traefik.Volumes[0], ":")
	require.Equal(t, root, filepath.Join(root, "examples", "docker", source))
	module := "github.com/sluice-ratelimit/sluice"
	require.Equal(t, "/plugins-local/src/"+module+":ro", mounted)
	require.Contains(t, read(t).Services.Traefik.Command, "--experimental.localPlugins.sluice.moduleName="+module)
}

func read(t *testing.T) (file compose) {
	root, err := gateway.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "examples", "docker", "compose.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &file))
	return file
}

// serveEngine answers on a socket as Docker's engine does, when one container runs that has the labels and a server at the address.
func serveEngine(t *testing.T, socket string, labels map[string]string, server *net.TCPAddr) {
	network := map[string]any{
		"Networks": map[string]any{"docker_default": map[string]any{"IPAddress": server.IP.String()}},
		"Ports":    map[string]any{strconv.Itoa(server.Port) + "/tcp": nil}, // which the image exposes
	}
	answers := map[string]any{
		"/_ping":           "OK",
		"/version":         map[string]any{"Version": "28.0.0", "ApiVersion": "1.44"},
		"/containers/json": []any{map[string]any{"Id": "whoami", "Names": []string{"/whoami"}, "NetworkSettings": network}},
		"/containers/whoami/json": map[string]any{
			"Id": "whoami", "Name": "/docker-whoami-1",
			"State":           map[string]any{"Status": "running", "Running": true},
			"HostConfig":      map[string]any{"NetworkMode": "docker_default"},
			"Config":          map[string]any{"Labels": labels},
			"NetworkSettings": network,
		},
	}
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	engine := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if rest, versioned := strings.CutPrefix(path, "/v"); versioned && path != "/version" {
			_, path, _ = strings.Cut(rest, "/")
			path = "/" + path
		}
		w.Header().Set("Api-Version", "1.44")
		w.Header().Set("Content-Type", "application/json")
		if path == "/events" { // of which there are none
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		answer, known := answers[path]
		if !known {
			t.Errorf("Traefik asks the engine for %s", r.URL)
		}
		json.NewEncoder(w).Encode(answer)
	})}
	go engine.Serve(listener)
	t.Cleanup(func() { engine.Close() })
}
