//go:build !linux

package harness

import (
	"errors"
	"syscall"
)

// dieWithParent does nothing, because only Linux supports it.
func dieWithParent(*syscall.SysProcAttr) {}

func (*Jail) confine(*syscall.SysProcAttr) error {
	return errors.New("a process can be confined on Linux only")
}
