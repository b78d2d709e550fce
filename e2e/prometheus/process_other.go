//go:build !linux

package prometheus

import "syscall"

// dieWithParent does nothing: only Linux has a way.
func dieWithParent(*syscall.SysProcAttr) {}
