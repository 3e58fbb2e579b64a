package gateway

import "syscall"

// attributes have the system end Traefik when the process that started it is gone, however that came about: a test that
// runs into its time limit calls nobody's Stop.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
