//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"isthmus/e2e/harness"
)

// podRanges are the addresses of all Pods. In the network namespace they are local addresses, so
// that a listener at every address serves all Pods.
var podRanges = []string{"10.128.0.0/15", "fd00:128::/32"}

// lookForTools returns an error that names what this machine lacks, and how to get it.
func lookForTools() error {
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("ip is missing in $PATH: install iproute2 (Debian: apt-get install iproute2)")
	}
	try := exec.Command("/bin/true")
	try.SysProcAttr = namespaced()
	if err := try.Run(); err != nil {
		return fmt.Errorf("this process may not create a network namespace: %w: run the command as root on Linux, "+
			"or allow user namespaces (Debian and Ubuntu: sysctl -w kernel.unprivileged_userns_clone=1 and "+
			"kernel.apparmor_restrict_unprivileged_userns=0; in a container: --privileged)", err)
	}
	return nil
}

// namespaced returns attributes by which a process starts in a network namespace of its own, and
// ends with this process. If this process is not root, it also starts in a user namespace of its
// own, as root.
func namespaced() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if uid := os.Geteuid(); uid != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return a
}

// inNetwork runs this command again, in a network namespace of its own.
func inNetwork(ctx context.Context, suite string) error {
	if err := lookForTools(); err != nil {
		return err
	}
	inside := exec.CommandContext(ctx, "/proc/self/exe", "-inside", suite)
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	inside.SysProcAttr = namespaced()
	inside.Cancel = func() error { return inside.Process.Signal(syscall.SIGTERM) }
	inside.WaitDelay = 30 * time.Second
	err := inside.Run()
	if ctx.Err() != nil {
		return harness.ErrInterrupted
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return harness.ErrPrinted
	}
	return err
}

// setUpNetwork gives the network namespace of this process its loopback interface and the addresses
// of Pods.
func setUpNetwork(ctx context.Context) error {
	commands := [][]string{{"link", "set", "lo", "up"}}
	for _, addresses := range podRanges {
		commands = append(commands, []string{"route", "add", "local", addresses, "dev", "lo"})
	}
	for _, args := range commands {
		if text, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %q: %w: %s", args, err, text)
		}
	}
	return nil
}
