package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/e2e/cmd/controlplane/internal/state"
	"isthmus/e2e/cmd/internal/cli"
)

// handling is what a verb does to a running cluster.
type handling struct {
	help   string
	signal syscall.Signal
	done   string // printed after the cluster's name
	ends   bool   // the process ends by it
}

var handlings = map[string]handling{
	"stop": {signal: syscall.SIGTERM, done: "stopped", ends: true, help: `controlplane stop [flags] NAME...

Ends clusters. Their data, address and credentials stay for the next start; to be
rid of them, delete the folder. Stopping what does not run is no error.
`},
	"kill": {signal: syscall.SIGKILL, done: "killed", ends: true, help: `controlplane kill [flags] NAME...

Ends clusters without warning, as kill -9 or a crash would. No data is lost; start
brings them back at the same address.
`},
	"pause": {signal: syscall.SIGSTOP, done: "paused", help: `controlplane pause [flags] NAME...

Freezes clusters: connections stay open, new ones are accepted, and nothing is
answered until resume. To clients that is what a hanging API server looks like.
`},
	"resume": {signal: syscall.SIGCONT, done: "resumed", help: `controlplane resume [flags] NAME...

Lets paused clusters go on.
`},
}

func signalCommand(ctx context.Context, verb string, args []string, stdout io.Writer) error {
	how := handlings[verb]
	flags := newFlags(verb, how.help, stdout)
	root := rootFlag(flags)
	names, _, err := parse(flags, args)
	if err != nil {
		return err
	}
	dirs, err := root.dirs(names)
	if err != nil {
		return err
	}
	var errs []error
	for i, name := range names {
		if err := how.apply(ctx, dirs[i]); err != nil {
			errs = append(errs, fmt.Errorf("cluster %s: %w", name, err))
			continue
		}
		fmt.Fprintf(stdout, "%s %s\n", name, how.done)
	}
	return errors.Join(errs...)
}

// apply signals the process that serves the folder and, if it ends by that,
// waits for its end. SIGTERM is followed by SIGKILL if it has no effect.
func (h handling) apply(ctx context.Context, dir state.Dir) error {
	proc, err := dir.Process()
	if errors.Is(err, state.ErrNotRunning) && h.ends {
		return nil
	}
	if err != nil {
		return err
	}
	if err := proc.Signal(h.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%v: %w", h.signal, err)
	}
	if !h.ends {
		return nil
	}
	if err := proc.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("resume: %w", err) // a paused process does not handle SIGTERM
	}
	if gone(ctx, dir) {
		return nil
	}
	if err := proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill: %w", err)
	}
	if !gone(ctx, dir) {
		return fmt.Errorf("process %d does not end", proc.Pid)
	}
	return nil
}

// gone waits a while until no process serves the folder.
func gone(ctx context.Context, dir state.Dir) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := dir.Process(); errors.Is(err, state.ErrNotRunning) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

const listHelp = `controlplane list [flags] [NAME...]

Shows clusters, all of them if none is named: their state, process and kubeconfig.
`

func listCommand(ctx context.Context, args []string, stdout io.Writer) error {
	flags := newFlags("list", listHelp, stdout)
	root := rootFlag(flags)
	paths := flags.Bool("paths", false, "print nothing but the paths of the kubeconfigs")
	names, _, err := parse(flags, args)
	if err != nil {
		return err
	}
	absolute, err := root.absolute()
	if err != nil {
		return err
	}
	known, err := state.Names(absolute)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = known
	}
	table := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	if !*paths {
		fmt.Fprintln(table, "NAME\tSTATE\tPID\tKUBECONFIG")
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no cluster %q in %s", name, absolute)
		}
		dir := state.Dir(filepath.Join(absolute, name))
		if *paths {
			fmt.Fprintln(table, dir.Kubeconfig())
			continue
		}
		pid, condition := inspect(ctx, dir)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, condition, pid, dir.Kubeconfig())
	}
	return table.Flush()
}

// inspect returns a cluster's process and condition.
func inspect(ctx context.Context, dir state.Dir) (pid, condition string) {
	proc, err := dir.Process()
	if errors.Is(err, state.ErrNotRunning) {
		return "-", "stopped"
	}
	if err != nil {
		return "-", err.Error()
	}
	pid = fmt.Sprint(proc.Pid)
	config, err := clientcmd.BuildConfigFromFlags("", dir.Kubeconfig())
	if err != nil {
		return pid, "starting"
	}
	config.Timeout = time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return pid, err.Error()
	}
	err = client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	switch {
	case err == nil:
		return pid, "ready"
	case os.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded):
		return pid, "paused or starting"
	}
	return pid, "not ready"
}

// rootFlag adds the flag --dir, which the verbs for many clusters share.
func rootFlag(flags *flag.FlagSet) *root {
	r := &root{}
	if cache, err := os.UserCacheDir(); err == nil {
		r.path = filepath.Join(cache, "isthmus", "clusters")
	}
	flags.StringVar(&r.path, "dir", r.path, "the `folder` that holds a folder for each cluster")
	return r
}

func checkNames(names []string) error {
	if len(names) == 0 {
		return cli.Usagef("name one cluster or more")
	}
	for i, name := range names {
		if !clusterName.MatchString(name) {
			return cli.Usagef("%q: a name has lower-case letters, digits and dashes", name)
		}
		if slices.Contains(names[:i], name) {
			return cli.Usagef("%q is named twice", name)
		}
	}
	return nil
}
