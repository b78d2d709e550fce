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

// podRanges contains the addresses of all Pods. They are local addresses in the network namespace,
// so that one listener can serve all Pods.
var podRanges = []string{"10.128.0.0/15", "fd00:128::/32"}

// lookForTools returns an error with a hint if the ip program is missing, or if this process may
// not create network namespaces.
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

// namespaced returns the attributes of a process with its own network namespace that ends with this
// process. Unless this process runs as root, the process is root in its own user namespace.
func namespaced() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if uid := os.Geteuid(); uid != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return a
}

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
