// Command demo shows Sluice at work: a backend that knows nothing of limits, the real Traefik in front of it with the
// configuration in examples/demo, and a list of things to try. `make demo` runs it. EXAMPLE names another folder of
// examples to take the configuration from.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/sluice-ratelimit/sluice/tools/demo/backend"
	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stopped := ctx.Err() != nil
	cancel()
	if err != nil && !stopped {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, or until something breaks.
func run(ctx context.Context) error {
	root, err := gateway.Root()
	if err != nil {
		return err
	}
	web, err := address("gateway", "GATEWAY_PORT", 8000)
	if err != nil {
		return err
	}
	api, err := address("API", "API_PORT", 8081)
	if err != nil {
		return err
	}
	back, err := address("backend", "BACKEND_PORT", 9000)
	if err != nil {
		return err
	}

	listener, err := net.Listen("tcp", back)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: backend.New(os.Stdout), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // for gRPC
	broken := make(chan error, 1)
	go func() { broken <- server.Serve(listener) }()

	options, err := configuration(root)
	if err != nil {
		return err
	}
	options.EntryPoints = map[string]string{"web": web, "traefik": api}
	options.Env = []string{"BACKEND_URL=http://" + back}
	options.Log = os.Stderr
	starting, cancel := context.WithTimeout(ctx, time.Hour) // building Traefik included
	defer cancel()
	traefik, err := gateway.Start(starting, options)
	if err != nil {
		return err
	}
	defer traefik.Stop()
	if example != "demo" {
		fmt.Println(invitationTo(example, traefik.URL("web"), traefik.API()))
	} else {
		routes, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if _, err := traefik.WaitRouter(routes, "data@file"); err != nil {
			return err
		}
		fmt.Println(invitation(traefik.URL("web"), traefik.API()))
	}
	defer server.Close() // before Traefik is stopped, which would wait for streams to end
	select {
	case <-ctx.Done():
		fmt.Println("\nStopping.")
		return nil
	case err := <-broken:
		return fmt.Errorf("backend: %w", err)
	case <-traefik.Exited():
		return errors.New("Traefik has ended; its last words are above")
	}
}

// example is the folder of examples whose configuration is shown.
var example = cmp.Or(os.Getenv("EXAMPLE"), "demo")

// configuration is the example's: its static file, or, as most have none, just its dynamic file.
func configuration(root string) (gateway.Options, error) {
	folder := filepath.Join(root, "examples", example)
	if _, err := os.Stat(filepath.Join(folder, "dynamic.yml")); err != nil {
		return gateway.Options{}, fmt.Errorf("EXAMPLE is %q, but examples/%s has no dynamic.yml", example, example)
	}
	static := filepath.Join(folder, "traefik.yml")
	if _, err := os.Stat(static); err == nil {
		return gateway.Options{StaticFile: static}, nil
	}
	return gateway.Options{Args: []string{
		"--providers.file.filename=" + filepath.Join(folder, "dynamic.yml"),
		"--log.level=INFO",
	}}, nil
}

// address is where one of the servers will listen, once it is sure that nobody else does.
func address(server, variable string, port int) (string, error) {
	if text := os.Getenv(variable); text != "" {
		var err error
		if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			return "", fmt.Errorf("%s is %q, which is not a port: write a number from 1 to 65535", variable, text)
		}
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return "", fmt.Errorf("port %d is taken, which the %s wants: choose another, as in %s=%d make demo",
			port, server, variable, min(port+1, 65535))
	}
	if err != nil {
		return "", err
	}
	return address, listener.Close()
}
