package harness

import (
	"os"
	"syscall"
)

// dieWithParent has the kernel kill the child when the thread that starts it ends. Unlike the pipe
// to its standard input that also ends a child that is paused, or reads nothing.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// confine has the child run in the jail. Who is not root needs a user namespace for that, in which
// the child's user stands for this process's.
func (j *Jail) confine(attr *syscall.SysProcAttr) error {
	root := os.Geteuid() == 0
	attr.Chroot = j.Root
	attr.Credential = &syscall.Credential{Uid: uint32(j.User), Gid: uint32(j.User), NoSetGroups: !root}
	if !root {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: j.User, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: j.User, HostID: os.Getegid(), Size: 1}}
	}
	return nil
}
