package cluster

import "syscall"

// dieWithParent has the kernel kill the child when the thread that starts it
// ends. Unlike the pipe it also ends a child that is paused.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
