//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"

	"isthmus/e2e/harness"
)

// Directories relative to the repository, which is the working directory under make.
const (
	bin       = "bin"
	manifests = "manifests"
	docs      = "docs"
	out       = "out/mcs-conformance" // logs and reports
	state     = out + "/state"        // temporary state, removed at the end
)

func main() {
	if run := podPrograms[filepath.Base(os.Args[0])]; run != nil {
		harness.Main(filepath.Base(os.Args[0]), run)
	}
	harness.Main("mcs-conformance", func(ctx context.Context) error {
		flags := flag.NewFlagSet("mcs-conformance", flag.ContinueOnError)
		look := flags.Bool("look", false, "Only check that this machine has what the command needs.")
		inside := flags.Bool("inside", false, "Set by the command itself, for the process in the network namespace.")
		if err := harness.ParseFlags(flags, os.Args[1:], "Usage: mcs-conformance FILE\n", os.Stdout); err != nil {
			return err
		}
		if *look {
			return lookForTools()
		}
		if flags.NArg() != 1 {
			return harness.Usagef("usage: mcs-conformance FILE, the program that go test -c builds of the suite")
		}
		if *inside {
			return run(ctx, flags.Arg(0))
		}
		return inNetwork(ctx, flags.Arg(0))
	})
}

// run runs the suite. When it returns, all processes that it started have ended.
func run(ctx context.Context, suite string) (err error) {
	suite, err = filepath.Abs(suite)
	if err != nil {
		return err
	}
	if err := describe(suite); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(state, 0o755)); err != nil {
		return err
	}
	if err := setUpNetwork(ctx); err != nil {
		return err
	}
	w := &world{}
	defer func() { err = errors.Join(err, w.close(), os.RemoveAll(state)) }()
	if err := w.start(ctx); err != nil {
		return err
	}
	return test(ctx, suite, w.kubeconfigs)
}
