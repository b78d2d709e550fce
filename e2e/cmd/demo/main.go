package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"isthmus/e2e/harness"
)

func main() {
	// SIGPIPE must be ignored: a write to a closed pipe then returns an error, and the demo can
	// clean up. A notification for SIGPIPE would not work, because connections to a killed API
	// server cause the signal too.
	signal.Ignore(syscall.SIGPIPE)
	harness.Main("demo", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout) })
}

const help = `demo runs Isthmus with three real Kubernetes clusters on this machine. Each
cluster consists of etcd, kube-apiserver and controllers, and Isthmus runs in a process
of its own. You do not have to install anything. There are no Nodes and no containers:
the demo writes Pods to the API as if they were running.

  demo                  run for about a minute; exit with 1 if a step goes wrong
  demo --keep           keep everything running at the end, until Ctrl-C
  demo --networks       also show a cluster on another network, behind two gateways
  demo --dir DIR        keep the state of the clusters and all logs in DIR

Isthmus runs in west. The clusters east and north are linked with the same Secrets
and permissions that Linkerd's multicluster extension uses. All three clusters have
the Service web, and web-federated in west combines these Services. The demo
subscribes to web-federated like a proxy, and prints what the proxy sees while the demo

  scales east up and down, unlinks north and links it again, kills the API server
  of east and starts it again, and rotates the credentials of north's link; then
  makes web prefer its own cluster, scales that cluster down and up again,
  replaces Isthmus while an API server is dead, cordons that cluster, and loses a
  cluster with when-lost: last-resort.

The column "seen after" shows the time from the demo's last write (a Pod's readiness,
a smaller Deployment or a link Secret) until the proxy receives the change.
The column "flaps" counts endpoints that were present before and after a step, but
not during the whole step.

Press Ctrl-C to end the demo and all its processes at any time.

Flags:
`

type options struct {
	bin, dir string
	networks bool
	keep     bool
}

func parse(args []string, stdout io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(
		&o.bin,
		"bin",
		"",
		"the `folder` with the programs isthmus and controlplane (default: they are built)",
	)
	flags.StringVar(
		&o.dir,
		"dir",
		"",
		"the `folder` for state and logs; the demo does not delete it (default: a temporary one, removed at the end)",
	)
	flags.BoolVar(
		&o.networks,
		"networks",
		false,
		"put north on another network for a while, so that clients reach web through gateways",
	)
	flags.BoolVar(&o.keep, "keep", false, "keep everything running at the end, until Ctrl-C")
	if err := harness.ParseFlags(flags, args, help, stdout); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, harness.Usagef("unexpected argument %q: see demo --help", flags.Arg(0))
	}
	return o, nil
}

// programs returns the paths of isthmus and controlplane. It builds them unless their directory is
// given.
func (o options) programs(ctx context.Context) (isthmus, controlplane string, err error) {
	if o.bin == "" {
		if controlplane, err = harness.Controlplane.Path(ctx); err == nil {
			isthmus, err = harness.Isthmus.Path(ctx)
		}
		return isthmus, controlplane, err
	}
	isthmus, controlplane = filepath.Join(o.bin, "isthmus"), filepath.Join(o.bin, "controlplane")
	for _, path := range []string{isthmus, controlplane} {
		if _, err := os.Stat(path); err != nil {
			return "", "", harness.Usagef("--bin: there is no %s; make tools builds it", path)
		}
	}
	return isthmus, controlplane, nil
}

// run runs the command. When it returns, all processes that it started have ended.
func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	d, err := newDemo(o, newScreen(stdout))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		cancel(nil)
		err = errors.Join(err, d.close())
	}()
	d.fail = cancel
	d.screen.fail = cancel
	if err = d.run(ctx); err != nil && ctx.Err() != nil {
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			return cause // a failure in the background
		}
		return harness.ErrInterrupted
	}
	return err
}
