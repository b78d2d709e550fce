package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"isthmus/e2e/cmd/controlplane/internal/state"
	"isthmus/e2e/cmd/internal/cli"
)

const startHelp = `controlplane start [flags] NAME... [-- KUBE-APISERVER-FLAGS]

Starts clusters in the background, all at once, and returns when they are ready.
A name that was used before is the same cluster again, with its data; one that
runs already is left alone. Their logs are ROOT/NAME/log.
`

// startLimit bounds how long clusters may take to become ready.
const startLimit = 5 * time.Minute

func startCommand(ctx context.Context, args []string, stdout io.Writer) error {
	flags := newFlags("start", startHelp, stdout)
	root := rootFlag(flags)
	list := flags.String("controllers", strings.Join(controllerNames(), ","),
		"comma-separated `list` of the controllers to run")
	names, apiFlags, err := parse(flags, args)
	if err != nil {
		return err
	}
	if _, err := parseControllers(*list); err != nil {
		return err
	}
	dirs, err := root.dirs(names)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			serveArgs := []string{"serve", "--name", name, "--dir", string(dirs[i]), "--controllers", *list}
			if len(apiFlags) > 0 {
				serveArgs = append(append(serveArgs, "--"), apiFlags...)
			}
			if err := startOne(ctx, dirs[i], serveArgs); err != nil {
				errs[i] = fmt.Errorf("cluster %s: %w", name, err)
			}
		})
	}
	wg.Wait()
	for i, name := range names {
		if errs[i] == nil {
			fmt.Fprintf(stdout, "%s is ready: --kubeconfig %s\n", name, dirs[i].Kubeconfig())
		}
	}
	return errors.Join(errs...)
}

// startOne starts a cluster unless it runs, in a session of its own so that it
// outlives the terminal, and waits until it is ready. One that does not become
// ready is not left behind.
func startOne(ctx context.Context, dir state.Dir, args []string) error {
	if pid, condition := inspect(ctx, dir); condition == "ready" {
		return nil
	} else if condition != "stopped" {
		return fmt.Errorf("runs already as process %s, but is %s", pid, condition)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(dir.Log(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(self, args...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	spare := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // an error: it has ended
	if _, err := bufio.NewReader(out).ReadString('\n'); err == nil && spare() {
		return cmd.Process.Release()
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("was not ready in time: %w; its log is %s", ctx.Err(), dir.Log())
	}
	return fmt.Errorf("ended before it was ready: %w; its log is %s", err, dir.Log())
}

// root is the folder with a folder for each cluster in it.
type root struct{ path string }

// dirs returns the folders, by absolute paths, of clusters as they are named on the command line.
func (r *root) dirs(names []string) ([]state.Dir, error) {
	if err := checkNames(names); err != nil {
		return nil, err
	}
	absolute, err := r.absolute()
	if err != nil {
		return nil, err
	}
	dirs := make([]state.Dir, len(names))
	for i, name := range names {
		dirs[i] = state.Dir(filepath.Join(absolute, name))
	}
	return dirs, nil
}

func (r *root) absolute() (string, error) {
	if r.path == "" {
		return "", cli.Usagef("--dir is missing, and there is no home folder to choose one in")
	}
	return filepath.Abs(r.path)
}
