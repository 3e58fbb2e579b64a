package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a server that a test has started, with its output in a file.
type process struct {
	command *exec.Cmd
	output  string
	exited  chan struct{}
}

// start starts a command whose output goes to the file.
func start(command *exec.Cmd, output string) (*process, error) {
	file, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the process has its own descriptor
	command.Stdout, command.Stderr = file, file
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{command: command, output: output, exited: make(chan struct{})}
	go func() {
		command.Wait()
		close(p.exited)
	}()
	return p, nil
}

// until asks again and again, until the answer is nil, the process ends, or the time is over.
func (p *process) until(limit time.Duration, ready func() error) error {
	name := filepath.Base(p.command.Path)
	for deadline := time.Now().Add(limit); ; {
		err := ready()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %v: %w\n%s", name, limit, err, p.tail(20))
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended instead of getting ready:\n%s", name, p.tail(20))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop ends the process, by force if it takes too long. It may be called on nil.
func (p *process) stop() {
	if p == nil {
		return
	}
	p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		p.command.Process.Kill()
		<-p.exited
	}
}

// log is everything that the process has written so far.
func (p *process) log() string {
	text, _ := os.ReadFile(p.output)
	return string(text)
}

func (p *process) tail(lines int) string {
	all := strings.Split(strings.TrimSpace(p.log()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
