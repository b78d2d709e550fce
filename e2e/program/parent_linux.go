package program

import "syscall"

// dieWithParent has the kernel kill the child when the thread that starts it ends. Unlike the pipe to its standard input
// that also ends a child that is paused, or reads nothing.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
