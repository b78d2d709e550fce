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
	// With SIGPIPE ignored, a write to a closed pipe returns an error, and the demo can clean up. The demo
	// must not be notified of SIGPIPE: connections to an API server that was killed cause it as well.
	signal.Ignore(syscall.SIGPIPE)
	harness.Main("demo", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout) })
}

const help = `demo shows Isthmus at work on three real Kubernetes clusters on this machine:
etcd, kube-apiserver and controllers in one process each, and the gateway in
another. Nothing has to be installed; there are no nodes and no containers, Pods
are written to the API as if they ran.

  demo                  about a minute; exit status 1 if anything is not as it should be
  demo --keep           then leave it all running, to look around, until Ctrl-C
  demo --networks       show a cluster on another network too, behind two gateways
  demo --dir DIR        keep the clusters' state and all logs in DIR

West is local to the gateway; east and north are linked to it, by the Secrets and
with the rights that Linkerd's multicluster extension uses. All three offer the
Service web, which west's web-federated joins. The demo subscribes to that like a
proxy and prints what the proxy sees while it

  scales east up and down, unlinks north and links it again, kills east's API
  server and brings it back, and rotates the credentials of north's link; then
  has web prefer its own cluster, scales that below what is enough and back,
  replaces Isthmus while a cluster's API server is dead, cordons that cluster,
  and loses one of last resort.

The table's "seen after" is the time from the demo's last write that makes a
change (a Pod's readiness, a smaller Deployment, a link's Secret) until the proxy
has the message that shows it;
"flaps" are endpoints that were there before and after a step, but not all along.

Ctrl-C ends it at any time. Whatever it started ends with it.

Flags:
`

// options are the command line.
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
		"the `folder` for state and logs; it stays (default: a temporary one, removed at the end)",
	)
	flags.BoolVar(
		&o.networks,
		"networks",
		false,
		"have north on another network for a while, where web is reached through gateways",
	)
	flags.BoolVar(&o.keep, "keep", false, "leave everything running at the end, until Ctrl-C")
	if err := harness.ParseFlags(flags, args, help, stdout); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, harness.Usagef("%q is not understood; see demo --help", flags.Arg(0))
	}
	return o, nil
}

// programs returns the paths of isthmus and controlplane, which it brings up to date unless their folder is given.
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

// run is the command without its process. When it returns, nothing that it
// started is left.
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
	if err = d.play(ctx); err != nil && ctx.Err() != nil {
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			return cause // something in the background broke
		}
		return harness.ErrInterrupted
	}
	return err
}
