package harness

import (
	"os"
	"syscall"
)

// dieWithParent makes the kernel kill the child when its parent thread ends. Unlike closing
// standard input, this also ends a child that is paused or does not read.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// confine restricts the child to the jail. Unless this process runs as root, the jail needs a user
// namespace that maps the child's user to the user of this process.
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
