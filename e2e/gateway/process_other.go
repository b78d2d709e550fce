//go:build !linux

package gateway

import "syscall"

// dieWithParent does nothing: only Linux has a way.
func dieWithParent(*syscall.SysProcAttr) {}
