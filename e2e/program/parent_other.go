//go:build !linux

package program

import "syscall"

// dieWithParent does nothing: only Linux has a way.
func dieWithParent(*syscall.SysProcAttr) {}
