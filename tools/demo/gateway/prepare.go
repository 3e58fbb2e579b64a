package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// module is how Traefik knows the plugin: the path of its source below plugins-local/src.
const module = "github.com/sluice-ratelimit/sluice"

// Binary returns the path of a Traefik v3 binary: the user's own if there is one, else one that is built, once, while
// progress (standard error if nil) says how far it is.
func Binary(ctx context.Context, progress io.Writer) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if progress == nil {
		progress = os.Stderr
	}
	command := exec.CommandContext(ctx, "sh", filepath.Join(root, "tools", "traefik", "binary.sh"))
	command.Stderr = progress
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) } // so that it ends its compiler, too
	command.WaitDelay = grace
	path, err := command.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("no Traefik: tools/traefik/binary.sh: %w", err)
	}
	return strings.TrimSpace(string(path)), nil
}

// Root returns the repository's root folder: the nearest one upwards from the working directory that holds the plugin.
func Root() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, _ := os.ReadFile(filepath.Join(folder, "go.mod"))
		if bytes.HasPrefix(text, []byte("module "+module+"\n")) {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("run this inside the Sluice repository: no folder upwards from here holds the plugin")
		}
		folder = parent
	}
}

// runFolder makes the folder that Traefik runs in. It looks for local plugins below its working directory; links give it
// the working tree's source, and its examples, so that editing an example's file is seen by a running gateway.
func runFolder() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "sluice-gateway-")
	if err != nil {
		return "", err
	}
	plugin := filepath.Join(folder, "plugins-local", "src", filepath.FromSlash(module))
	err = errors.Join(
		os.MkdirAll(filepath.Dir(plugin), 0o755),
		os.Symlink(root, plugin),
		os.Symlink(filepath.Join(root, "examples"), filepath.Join(folder, "examples")),
	)
	if err != nil {
		os.RemoveAll(folder)
		return "", err
	}
	return folder, nil
}

// arguments are Traefik's command line.
func arguments(options Options, addresses map[string]string, folder string) ([]string, error) {
	if options.StaticFile != "" {
		file, err := staticFile(options.StaticFile, addresses, folder)
		return []string{"--configFile=" + file}, err
	}
	arguments := []string{
		"--experimental.localPlugins.sluice.moduleName=" + module,
		"--experimental.abortOnPluginFailure=true", // or Traefik would run on with every plugin switched off
		"--api.insecure=true",
		"--api.dashboard=false", // whose files are not in a Traefik built from its Go module
		"--global.checkNewVersion=false",
		"--log.noColor=true",
	}
	for name, address := range addresses {
		arguments = append(arguments, "--entryPoints."+name+".address="+address)
	}
	return append(arguments, options.Args...), nil
}

// staticFile copies a static configuration file with other addresses, and returns the copy's path.
func staticFile(path string, addresses map[string]string, folder string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for name, address := range addresses {
		entry := regexp.MustCompile(`(?m)^( +` + regexp.QuoteMeta(name) + `:.*\n +address: *).*$`)
		if !entry.Match(text) {
			return "", fmt.Errorf("%s: no entry point %q with its address in the next line", path, name)
		}
		text = entry.ReplaceAll(text, []byte("${1}"+strconv.Quote(address)))
	}
	file := filepath.Join(folder, "traefik.yml")
	return file, os.WriteFile(file, text, 0o644)
}

// FreeAddress finds a port of host that nobody listens on, and returns "host:port". It looks below the range from which systems take ports for outgoing
// connections: a test that opens thousands of those would sooner or later be given the port in between.
func FreeAddress(host string) (string, error) {
	for range 100 {
		address := net.JoinHostPort(host, strconv.Itoa(20_000+rand.IntN(10_000)))
		if listener, err := net.Listen("tcp", address); err == nil {
			listener.Close()
			return address, nil
		}
	}
	return "", errors.New("no free port between 20000 and 30000 on " + host)
}
