//go:build !linux

package cluster

import "syscall"

// dieWithParent does nothing: the pipe to the child's standard input is what
// ends it here.
func dieWithParent(*syscall.SysProcAttr) {}
