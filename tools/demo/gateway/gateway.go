// Package gateway runs the real Traefik with Sluice loaded from the working tree, for the demonstration, the end-to-end
// tests and the measurements. It works from any folder inside the repository.
package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// grace is how long Traefik may take to end its connections before it is killed.
const grace = 5 * time.Second

// Options say which Traefik to run. The zero value runs one that has Sluice loaded, the entry point "web" on a free port,
// its API on another, and no routes.
type Options struct {
	// EntryPoints gives entry points their addresses by name; port 0 stands for any free one. "web", and "traefik" for
	// the API, are there without being named, on free ports of 127.0.0.1.
	EntryPoints map[string]string

	// Args are more flags of Traefik's static configuration, such as "--providers.file.filename=...".
	Args []string

	// StaticFile is the path of a YAML file with Traefik's static configuration. Traefik reads either a file or flags, so
	// Args are not used then, and the file must declare the plugin, the API and every one of EntryPoints, whose addresses
	// take the place of those in the file. Relative paths in it are understood from the repository's root, if they
	// begin with "examples/".
	StaticFile string

	// Env is added to the environment, as "NAME=value". Dynamic files can read it with {{ env "NAME" }}.
	Env []string

	// Log also receives Traefik's log, as it is written; it may be nil.
	Log io.Writer

	// Progress receives what a person should see while Traefik is built, which takes minutes the first time and happens
	// when there is no Traefik yet. Default: standard error.
	Progress io.Writer
}

// Gateway is a running Traefik.
type Gateway struct {
	addresses map[string]string // of entry points
	folder    string
	command   *exec.Cmd
	log       *recorder
	exited    chan struct{} // closed when the process has ended
	stop      sync.Once
}

// Start starts Traefik and waits until its API answers. Routes may take a moment longer: see WaitRouter. When it returns
// an error, nothing is left running. ctx bounds the start alone; end a started Gateway with Stop.
func Start(ctx context.Context, options Options) (*Gateway, error) {
	binary, err := Binary(ctx, options.Progress)
	if err != nil {
		return nil, err
	}
	addresses, err := entryPoints(options.EntryPoints)
	if err != nil {
		return nil, err
	}
	folder, err := runFolder()
	if err != nil {
		return nil, err
	}
	arguments, err := arguments(options, addresses, folder)
	if err != nil {
		os.RemoveAll(folder)
		return nil, err
	}

	g := &Gateway{
		addresses: addresses,
		folder:    folder,
		command:   exec.Command(binary, arguments...),
		log:       &recorder{also: options.Log},
		exited:    make(chan struct{}),
	}
	g.command.Dir = folder
	g.command.Env = append(os.Environ(), options.Env...)
	g.command.Stdout = g.log
	g.command.Stderr = g.log
	g.command.SysProcAttr = attributes()
	if err := g.command.Start(); err != nil {
		os.RemoveAll(folder)
		return nil, fmt.Errorf("start Traefik: %w", err)
	}
	go func() {
		g.command.Wait()
		close(g.exited)
	}()
	if err := g.ready(ctx); err != nil {
		g.Stop()
		return nil, err
	}
	return g, nil
}

// URL is where an entry point listens: "http://127.0.0.1:20123" for "web".
func (g *Gateway) URL(entryPoint string) string {
	return "http://" + g.addresses[entryPoint]
}

// Log is everything that Traefik has written so far.
func (g *Gateway) Log() string {
	return g.log.String()
}

// PID is the process id of this Traefik.
func (g *Gateway) PID() int {
	return g.command.Process.Pid
}

// Exited is closed when Traefik has ended, asked to or not.
func (g *Gateway) Exited() <-chan struct{} {
	return g.exited
}

// Stop ends Traefik, by force if it does not go within a few seconds, and removes its run folder. It returns when the
// process is gone. Stopping twice does no harm.
func (g *Gateway) Stop() {
	g.stop.Do(func() {
		g.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-g.exited:
		case <-time.After(grace):
			g.command.Process.Kill()
			<-g.exited
		}
		os.RemoveAll(g.folder)
	})
}

// ready waits until the API answers or Traefik gives up, and says in the error what its log says.
func (g *Gateway) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if g.get(ctx, "/api/version", nil) == nil {
			return nil
		}
		select {
		case <-g.exited:
			return fmt.Errorf("Traefik ended instead of starting:\n%s", g.log.tail(10))
		case <-ctx.Done():
			return fmt.Errorf("Traefik's API on %s did not answer: %w\n%s", g.API(), ctx.Err(), g.log.tail(10))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// entryPoints puts a free port in the place of each port 0.
func entryPoints(wanted map[string]string) (map[string]string, error) {
	addresses := map[string]string{"web": "127.0.0.1:0", "traefik": "127.0.0.1:0"}
	for name, address := range wanted {
		addresses[name] = address
	}
	for name, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("entry point %s: %w", name, err)
		}
		if port != "0" {
			continue
		}
		if addresses[name], err = FreeAddress(host); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}

// recorder keeps the log and hands it on.
type recorder struct {
	mu   sync.Mutex
	text strings.Builder
	also io.Writer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.also != nil {
		r.also.Write(p)
	}
	return r.text.Write(p)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *recorder) tail(lines int) string {
	all := strings.Split(strings.TrimSpace(r.String()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
