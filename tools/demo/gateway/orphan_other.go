//go:build !linux

package gateway

import "syscall"

// attributes are nothing here: other systems offer no way to tie a process to the one that started it.
func attributes() *syscall.SysProcAttr { return nil }
