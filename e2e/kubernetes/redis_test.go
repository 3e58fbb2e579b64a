package kubernetes

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRedis applies examples/redis-ha/kubernetes.yaml, runs the Deployment's redis-server, and looks in it for what the Middleware counts. The Service's
// name is all that is changed: there is no DNS.
func TestRedis(t *testing.T) {
	raised(t)
	binary, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("NOT TESTED: needs redis-server (Debian: apt-get install redis-server).")
	}
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(repository(), "examples", "redis-ha", "kubernetes.yaml"))
	require.NoError(t, err)
	const service, here = "redis.example.svc:6379", "127.0.0.1:6379"
	require.Equal(t, 1, strings.Count(string(text), service))
	manifest := strings.Replace(string(text), service, here, 1)
	_, err = site.kubectl(manifest, "apply", "-f", "-")
	require.NoError(t, err)
	kubectl(t, "create", "serviceaccount", "default", "-n", "example") // as a controller would
	t.Cleanup(func() {
		kubectl(t, "annotate", "--overwrite", "-n", "example", "ingress/whoami", router("per-ip"))
		_, err := site.kubectl(manifest, "delete", "--wait=false", "-f", "-")
		require.NoError(t, err)
		kubectl(t, "delete", "--wait=false", "-n", "example", "serviceaccount/default", "pod/redis-pod")
	})

	object, err := createPod(site.cluster, "example", "redis") // which the namespace's security standard admits
	require.NoError(t, err)
	run := object.Spec.Containers[0]
	require.Equal(t, []any{"redis-server"}, run.Command)
	password := secretOf(t, run.Env[0])
	var arguments []string
	for _, argument := range run.Args {
		arguments = append(arguments, strings.ReplaceAll(argument, "$(PASSWORD)", password))
	}
	command := exec.Command(binary, append(arguments, "--bind 127.0.0.1")...)
	command.Dir = t.TempDir()
	redis, err := start(command, filepath.Join(t.TempDir(), "redis.log"))
	require.NoError(t, err)
	t.Cleanup(redis.stop)
	require.NoError(t, redis.until(10*time.Second, func() error {
		c, err := net.Dial("tcp", here)
		if err == nil {
			err = c.Close()
		}
		return err
	}))
	require.Contains(t, tell(t, here, "DBSIZE"), "NOAUTH")

	kubectl(t, "annotate", "--overwrite", "-n", "example", "ingress/whoami", router("shared"))
	count := `EVAL "return #redis.call('KEYS', 'sluice:{example-shared@kubernetescrd}:limit*')" 0`
	waitFor(t, "a counter in Redis", func() bool {
		return newClient(t).get(ingress).status == http.StatusOK && tell(t, here, "AUTH "+password, count) != ":0"
	})
	require.Equal(t, 9, newClient(t).get(ingress).remaining())
}

func router(middleware string) string {
	return "traefik.ingress.kubernetes.io/router.middlewares=example-" + middleware + "@kubernetescrd"
}

// secretOf is the value of an environment variable that comes from a Secret.
func secretOf(t *testing.T, variable any) string {
	t.Helper()
	text, err := json.Marshal(variable)
	require.NoError(t, err)
	var described struct {
		ValueFrom struct {
			SecretKeyRef struct{ Name, Key string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &described))
	from := described.ValueFrom.SecretKeyRef
	return kubectl(t, "get", "secret", "-n", "example", from.Name, "-o", `go-template={{index .data "`+from.Key+`" | base64decode}}`)
}

// tell sends commands, of which each has an answer of one line, and returns the last answer.
func tell(t *testing.T, address string, commands ...string) (answer string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	answers := bufio.NewScanner(c)
	for _, command := range commands {
		_, err := c.Write([]byte(command + "\r\n"))
		require.NoError(t, err)
		require.True(t, answers.Scan(), "no answer to %s", command)
		answer = answers.Text()
	}
	return answer
}
