package main

import (
	"context"
	"errors"
	"os"

	"isthmus/e2e/cmd/internal/cli"
)

// Folders, from the repository's root, where make runs this command.
const (
	bin       = "bin"
	manifests = "manifests"
	out       = "out/mcs-conformance" // for logs and reports
	state     = out + "/state"        // of what runs, removed at the end
)

func main() {
	cli.Main("mcs-conformance", func(ctx context.Context) error {
		if len(os.Args) != 2 {
			return cli.Usagef("usage: mcs-conformance DIR, a checkout of github.com/kubernetes-sigs/mcs-api")
		}
		return run(ctx, os.Args[1])
	})
}

// run runs the suite of a checkout. When it returns, nothing that it started is left.
func run(ctx context.Context, checkout string) (err error) {
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(state, 0o755)); err != nil {
		return err
	}
	w := &world{}
	defer func() { err = errors.Join(err, w.close(), os.RemoveAll(state)) }()
	if err := build(ctx, checkout); err != nil {
		return err
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	return test(ctx, w.kubeconfigs)
}
