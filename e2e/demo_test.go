package e2e

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

// TestDemo runs the program behind `make demo`, and ends it in the ways it can be ended.
func TestDemo(t *testing.T) {
	binary := buildDemo(t)
	t.Run("Ctrl-C in a terminal", func(t *testing.T) { // which signals Traefik as well
		testDemoStops(t, binary, func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) })
	})
	t.Run("SIGTERM to it alone", func(t *testing.T) {
		testDemoStops(t, binary, func(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) })
	})
	t.Run("a port is taken", func(t *testing.T) { testDemoPortTaken(t, binary) })
}

func testDemoStops(t *testing.T, binary string, stop func(pid int) error) {
	d := newDemo(t, binary)
	output := &recorder{}
	d.command.Stdout, d.command.Stderr = output, output
	d.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a group of its own, to see who is left in it
	require.NoError(t, d.command.Start())
	group := d.command.Process.Pid
	t.Cleanup(func() { syscall.Kill(-group, syscall.SIGKILL) })

	web := "http://" + d.addresses[0]
	waitFor(t, "the demo to say what to try", func() bool { return strings.Contains(output.String(), "curl -i "+web+"/data") })
	s := &stage{web: web}
	require.Equal(t, "9", s.get(t, "/data").header.Get("X-RateLimit-Remaining"))
	require.Contains(t, s.get(t, "/playground/").body, "<html")
	require.Contains(t, s.get(t, "/log").body, `"url":"/data"`)

	stream, err := http.Get(web + "/events?count=1000") // open, it must not hold up the end
	require.NoError(t, err)
	defer stream.Body.Close()

	told := time.Now()
	require.NoError(t, stop(group))
	require.NoError(t, d.command.Wait(), "it ends well, having done what it was told; it said:\n%s", output)
	require.Less(t, time.Since(told), 3*time.Second)
	require.ErrorIs(t, syscall.Kill(-group, 0), syscall.ESRCH, "a process of its group is left")
	for _, address := range d.addresses {
		_, err := net.Dial("tcp", address)
		require.Error(t, err, "somebody still listens on %s", address)
	}
	left, err := os.ReadDir(d.temporary)
	require.NoError(t, err)
	require.Empty(t, left, "files are left")
}

func testDemoPortTaken(t *testing.T, binary string) {
	for i, variable := range portVariables {
		d := newDemo(t, binary)
		taken, err := net.Listen("tcp", d.addresses[i])
		require.NoError(t, err)
		output, err := d.command.CombinedOutput()
		taken.Close()

		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 1, exit.ExitCode())
		_, port, _ := net.SplitHostPort(d.addresses[i])
		require.Contains(t, string(output), "port "+port+" is taken")
		require.Contains(t, string(output), variable+"=")
		require.Equal(t, 1, strings.Count(string(output), "\n"), "more than one line: %s", output)
	}
}

// demo is the program, ready to run, with ports and a folder for temporary files of its own.
type demo struct {
	command   *exec.Cmd
	addresses []string
	temporary string
}

var portVariables = []string{"GATEWAY_PORT", "API_PORT", "BACKEND_PORT"}

func newDemo(t *testing.T, binary string) *demo {
	t.Helper()
	d := &demo{command: exec.Command(binary), temporary: t.TempDir()}
	d.command.Env = append(os.Environ(), "TMPDIR="+d.temporary)
	for _, variable := range portVariables {
		address, err := gateway.FreeAddress("127.0.0.1")
		require.NoError(t, err)
		_, port, _ := net.SplitHostPort(address)
		d.addresses = append(d.addresses, address)
		d.command.Env = append(d.command.Env, variable+"="+port)
	}
	return d
}

// buildDemo compiles the program, since `go run` would stand between the test's signals and it.
func buildDemo(t *testing.T) string {
	t.Helper()
	root, err := gateway.Root()
	require.NoError(t, err)
	binary := filepath.Join(t.TempDir(), "demo")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = filepath.Join(root, "tools", "demo")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return binary
}

// recorder collects what a running program says.
type recorder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
