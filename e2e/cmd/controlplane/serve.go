package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/assets"
)

const help = `controlplane serve --name NAME --dir DIR [flags]

Runs a Kubernetes control plane in the foreground: etcd, kube-apiserver and a few
controllers, reachable on one address only. There are no nodes; Pods are what you write
to the API. It logs to standard error. When the cluster is ready, one line of JSON on
standard output holds its address; DIR/kubeconfig holds an administrator's credentials,
DIR/pid the process. It ends on any signal; the same DIR again is the same cluster, at
the same address, with its data and credentials.

To look around:

  controlplane serve --name west --dir west 2>west.log &
  kubectl --kubeconfig west/kubeconfig get namespaces

Flags:
`

type serveOptions struct {
	name        string
	dir         stateDir
	host        net.IP
	controllers []string
	all         bool
}

type announcement struct {
	Name       string `json:"name"`
	Server     string `json:"server"`
	Kubeconfig string `json:"kubeconfig"`
	PID        int    `json:"pid"`
	Took       string `json:"took"`
}

var clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func serveCommand(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("controlplane serve", flag.ContinueOnError)
	var opts serveOptions
	flags.StringVar(&opts.name, "name", "", "the cluster's `name`: lower-case letters, digits and dashes")
	dir := flags.String("dir", "", "the `folder` of its state; made if need be")
	list := flags.String("controllers", strings.Join(defaultControllers, ","),
		"comma-separated `list` of the controllers to run, of: "+strings.Join(controllerNames(), ", "))
	host := flags.String("host", "127.0.0.1", "the `IP` address to listen on")
	flags.BoolVar(
		&opts.all,
		"all",
		true,
		"serve all API groups, and the API's description, which kubectl asks for; that takes two fifths of a start",
	)
	untilEOF := flags.Bool(
		"until-eof",
		false,
		"also end when standard input ends, which it does with the process at its other end",
	)
	err := harness.ParseFlags(flags, args, help, stdout)
	if err != nil {
		return err
	}
	if opts.controllers, err = parseControllers(*list); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return harness.Usagef("serve: unexpected %q; the name is given by --name", flags.Arg(0))
	case !clusterName.MatchString(opts.name):
		return harness.Usagef("serve: --name %q: a name has lower-case letters, digits and dashes", opts.name)
	case *dir == "":
		return harness.Usagef("serve: --dir is missing")
	}
	if opts.host = net.ParseIP(*host); opts.host == nil {
		return harness.Usagef("serve: --host %q is no IP address", *host)
	}
	absolute, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	opts.dir = stateDir(absolute)
	if *untilEOF {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // an error means the end too
			cancel()
		}()
	}
	return serve(ctx, opts, stdout)
}

// serve runs a cluster until ctx ends or a component fails. It does not wait for the components,
// because they end with the process.
func serve(ctx context.Context, opts serveOptions, stdout io.Writer) (err error) {
	began := time.Now()
	defer func() {
		if err != nil {
			err = fmt.Errorf("cluster %s: %w", opts.name, err)
		}
	}()
	limitMemory()
	signal.Ignore(syscall.SIGPIPE) // the reader of the output may end first
	listener, err := awaitPort(ctx, opts)
	if err != nil {
		return err
	}
	if err := opts.dir.WritePID(); err != nil {
		return err
	}
	credentials, err := opts.dir.Credentials(opts.host)
	if err != nil {
		return err
	}
	url := "https://" + listener.Addr().String()
	if err := opts.dir.WriteKubeconfig(opts.name, url, credentials); err != nil {
		return err
	}
	if err := os.Chdir(string(opts.dir)); err != nil {
		return err
	}
	running, err := startServers(ctx, serverOptions{
		dir: opts.dir, listener: listener, credentials: credentials, controllers: opts.controllers, all: opts.all,
	})
	if err != nil {
		return err
	}
	defer running.kill()
	ready := running.ready
	for {
		select {
		case <-ctx.Done():
		case err = <-running.ended:
		case err = <-ready:
		}
		if ctx.Err() != nil {
			return nil // canceled; errors of the components no longer matter
		}
		if err != nil {
			return err
		}
		ready = nil
		if err := json.NewEncoder(stdout).Encode(announcement{
			Name: opts.name, Server: url, Kubeconfig: opts.dir.Kubeconfig(), PID: os.Getpid(),
			Took: time.Since(began).Round(time.Millisecond).String(),
		}); err != nil {
			return err
		}
		// Most memory used at startup is garbage now, so it is returned to the system.
		time.AfterFunc(5*time.Second, func() {
			collect(garbage)
			debug.FreeOSMemory()
		})
	}
}

// awaitPort binds the cluster's port. The kube-apiserver of a killed process may hold the port for
// a moment.
func awaitPort(ctx context.Context, opts serveOptions) (net.Listener, error) {
	const limit = 5 * time.Second
	for began := time.Now(); ; {
		listener, err := opts.dir.Listen(opts.host)
		if !assets.Named() || !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > limit {
			return listener, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// GOGC at startup and afterwards. A lower value would increase the startup cost by a third, and the
// later cost of a test cluster by a tenth.
const starting, garbage = 400, 200

// limitMemory sets a memory limit unless the environment sets one. With 5,000 Pods and minutes of
// frequent writes, 240 MiB are in use. A limit close to that would make the garbage collector use
// half of the CPU.
func limitMemory() {
	collect(starting)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(700 << 20)
	}
}

func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
