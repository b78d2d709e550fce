//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"isthmus/e2e/harness"
)

const help = `nodes [flags]

Run two clusters with real nodes (containerd, kubelet, kube-proxy, CNI plugins, CoreDNS). Install Isthmus in the first
cluster with the README's commands, and link the second cluster. Kill replicas and API servers, drain and lose a node,
update Isthmus, and print a table of what clients in Pods notice. The command needs Linux, root, containerd, runc, nft
and ip; make nodes builds everything else. All clusters and networks are removed at the end.

Flags:
`

type options struct {
	repository, bin, linkerd, run string
	look                          bool
	inside                        string // directory of this run, if this is the inner process
}

func main() {
	if len(os.Args) > 1 {
		if inPod := map[string]func([]string) error{
			"client": runClient,
			"web":    runWeb,
			"hog":    runHog,
		}[os.Args[1]]; inPod != nil {
			if err := inPod(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	harness.Main("nodes", func(ctx context.Context) error {
		var o options
		flags := flag.NewFlagSet("nodes", flag.ContinueOnError)
		flags.StringVar(
			&o.repository,
			"repository",
			".",
			"find the built programs in bin and out of the repository in this `directory`",
		)
		flags.StringVar(
			&o.linkerd,
			"linkerd",
			"",
			"also replace Linkerd's controller, which is this `binary`",
		)
		flags.StringVar(&o.run, "run", "", "play only the events that match this `regex`")
		flags.BoolVar(&o.look, "look", false, "only check whether the machine has everything that is needed")
		flags.StringVar(&o.inside, "inside", "", "used only by the command itself")
		if err := harness.ParseFlags(flags, os.Args[1:], help, os.Stdout); err != nil {
			return err
		}
		var err error
		if o.repository, err = filepath.Abs(o.repository); err != nil {
			return err
		}
		if _, err := regexp.Compile(o.run); err != nil {
			return harness.Usagef("-run: %w", err)
		}
		o.bin = filepath.Join(o.repository, "bin", "node")
		if o.inside != "" {
			return runInside(ctx, o)
		}
		return runOutside(ctx, o)
	})
}

func missing() (list []string) {
	if os.Geteuid() != 0 {
		list = append(list, "root: namespaces and mounts are made")
	}
	for _, program := range []string{
		"containerd",
		"containerd-shim-runc-v2",
		"ctr",
		"runc",
		"nft",
		"ip",
		"unshare",
		"mount",
		"awk",
	} {
		if _, err := exec.LookPath(program); err != nil {
			list = append(
				list,
				program+
					": of the distribution's package, for Debian's: apt-get install containerd runc nftables "+
					"iproute2 mount util-linux",
			)
		}
	}
	if text, _ := os.ReadFile("/proc/filesystems"); !strings.Contains(string(text), "overlay") {
		list = append(list, "overlayfs, in the kernel: modprobe overlay")
	}
	return list
}

// runOutside runs the inner process and cleans up after it.
func runOutside(ctx context.Context, o options) (err error) {
	if list := missing(); len(list) > 0 || o.look {
		if len(list) == 0 {
			return nil
		}
		return fmt.Errorf("this machine has not\n  %s", strings.Join(list, "\n  "))
	}
	const prefix = "isthmus-nodes-"
	parent := filepath.Join(o.repository, "out", "nodes")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	removeCgroups(prefix) // from killed runs
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return err
	}
	inside := exec.CommandContext(ctx, "/proc/self/exe", append(os.Args[1:], "-inside", dir)...)
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	inside.Cancel = func() error { return inside.Process.Signal(syscall.SIGTERM) }
	inside.WaitDelay = 10 * time.Second
	inside.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWIPC,
		Setpgid:   true, // only this process handles Ctrl-C
		Pdeathsig: syscall.SIGKILL,
	}
	err = inside.Run()
	err = errors.Join(err, removeCgroups(filepath.Base(dir)))
	if ctx.Err() != nil {
		return errors.Join(harness.ErrInterrupted, os.RemoveAll(dir))
	}
	if err != nil {
		return fmt.Errorf("%w: logs are in %s, which is yours to remove", err, dir)
	}
	return os.RemoveAll(dir)
}

// removeCgroups removes all cgroup trees whose name begins with a prefix. Cgroups that contain
// processes cannot be removed. If the prefix ends with a dash, they belong to another run and are
// ignored. Otherwise removeCgroups waits until the processes have ended.
func removeCgroups(prefix string) error {
	var trees []string
	for range 50 {
		trees = nil
		filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), prefix) {
				trees = append(trees, path)
				return fs.SkipDir
			}
			return nil // skip cgroups that have disappeared
		})
		for _, tree := range trees {
			removeTree(tree)
		}
		if len(trees) == 0 || strings.HasSuffix(prefix, "-") {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("cgroups can't be removed: %q", trees)
}

func removeTree(tree string) {
	var paths []string
	used := false
	filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			processes, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			used = used || len(processes) > 0
			paths = append(paths, path)
		}
		return nil // skip cgroups that have disappeared
	})
	if !used {
		for _, path := range slices.Backward(paths) {
			os.Remove(path) // removeCgroups retries failures
		}
	}
}
