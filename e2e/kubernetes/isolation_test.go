package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Addresses in the tests' own network, of which the loopback device holds all that begin with 10.
const (
	nodeAddress    = "10.0.0.1"
	traefikAddress = "10.0.0.10"
	whoamiAddress  = "10.0.0.20"
	serviceRange   = "10.96.0.0/16" // of which the API server takes the first for itself
)

// workspace is the folder for whatever the cluster and the pods have on disk; "" outside of isolation.
var workspace = os.Getenv("SLUICE_WORKSPACE")

// isolated says whether this process is the one that isolate has started.
func isolated() bool { return workspace != "" }

// isolate runs this test binary again, in namespaces of its own: a network where every address and port is free and that nobody
// reaches from outside, mounts that are gone when it ends, and processes that end with it. It returns its exit code.
func isolate() (int, error) {
	folder, err := os.MkdirTemp("", "sluice-kubernetes-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Env = append(os.Environ(), "SLUICE_WORKSPACE="+folder)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Getuid() != 0 { // then namespaces are to be had within one where this user is root
		command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // Pdeathsig is about the thread that starts the process
	err = command.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), nil
	case err != nil:
		return 0, fmt.Errorf("these tests need Linux namespaces, as root or where users may have them: %w", err)
	}
	return 0, nil
}

// raiseWorkspace has the workspace in memory, where it is seen by this process and its children alone.
func raiseWorkspace() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", workspace, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount the workspace: %w", err)
	}
	return nil
}

// raiseNetwork gives the new network its addresses.
func raiseNetwork() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback); err != nil {
		return fmt.Errorf("raise the loopback device: %w", err)
	}
	second, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := second.SetInet4Addr([]byte{10, 0, 0, 1}); err != nil { // of class A, hence with all of 10.0.0.0/8
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, second); err != nil {
		return fmt.Errorf("give the loopback device an address: %w", err)
	}
	return nil
}
