package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"isthmus/e2e/harness"
	"isthmus/e2e/sim"
)

func main() {
	harness.Main("isthmus-sim", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout) })
}

const overview = `isthmus-sim tests Isthmus with simulated clusters and clients that change, fail and misbehave.

usage: isthmus-sim [flags]

It starts simulated API servers, an Isthmus process that is local to the first of them, and
simulated proxies. Then it makes random changes, step by step:

  - Services scale, move and change. Some prefer certain clusters.
  - Clusters are linked, unlinked, cordoned, given new credentials and put behind Linkerd
    gateways, which move, fail and recover.
  - Clusters export Services, and users have Services of the same names.
  - API servers refuse connections, stop responding, expire versions or return errors.
  - Clients reconnect, unsubscribe or stop reading.

It checks:

  protocol          the first message is an add or no_endpoints and arrives within 3 s, and no add
                    is empty
  no flaps          an address that is available without interruption is never removed, unless its
                    cluster is only a last resort
  no dips           a client always has as many endpoints as were available without interruption,
                    up to min-ready
  convergence       after each round, every client holds exactly what the objects imply
  exports           Isthmus changes no Service or ServiceImport without its mark, and in the end
                    writes exactly the objects that the exports imply
  outages           if Isthmus restarts while a cluster is unreachable, it serves the cluster from a
                    copy, and no client loses an endpoint
  readiness         Isthmus keeps running, and stays ready

examples:

  isthmus-sim                                    run 20 rounds with a new seed
  isthmus-sim -seed 7 -rounds 3 -v               repeat 3 rounds of a seed, and show each step
  isthmus-sim -seeds 10                          run ten seeds; -seed sets the first
  isthmus-sim -clusters 200 -services 5 -duration 5m
  isthmus-sim -faults '^(refuse|silent)$'        inject only these faults; "-faults none" disables all

The seed and the flags for sizes determine the steps and their order, but not their timing. So a
failure may need several runs of its seed to happen again. For a failure, isthmus-sim prints the
seed, the expected result, the events of the service, the messages to the client and the end of
the log of Isthmus. The exit code is then 1.

faults: `

type arguments struct {
	sim   sim.Config
	seeds int
}

func parse(args []string, out io.Writer) (arguments, error) {
	var a arguments
	flags := flag.NewFlagSet("isthmus-sim", flag.ContinueOnError)
	s := &a.sim
	flags.Uint64Var(&s.Seed, "seed", 0, "`number` that determines all steps; if 0, the time determines it")
	flags.IntVar(&a.seeds, "seeds", 1, "number of seeds to run, one after the other")
	flags.IntVar(&s.Clusters, "clusters", 6, "number of clusters, including the local one")
	flags.IntVar(&s.Services, "services", 5, "number of services that clusters have in common")
	flags.IntVar(&s.Endpoints, "endpoints", 5, "initial endpoints of a service in a cluster, on average")
	flags.IntVar(&s.Clients, "clients", 60, "number of clients, each with one stream")
	flags.IntVar(&s.Steps, "steps", 200, "maximum number of steps in a round")
	flags.DurationVar(&s.Pace, "pace", 5*time.Millisecond, "average time between steps")
	flags.IntVar(&s.Rounds, "rounds", 0, "number of rounds; 20 if neither -rounds nor -duration is set")
	flags.DurationVar(&s.Duration, "duration", 0, "start no round after this time")
	flags.DurationVar(&s.Within, "within", 20*time.Second, "limit for clients to converge after a round")
	flags.StringVar(&s.Gateway, "gateway", "", "`path` of the isthmus binary; if empty, it is built")
	flags.BoolVar(&s.Verbose, "v", false, "show each step")
	faults := flags.String("faults", ".", "`regular expression` of the faults to inject")
	err := harness.ParseFlags(flags, args, overview+strings.Join(sim.FaultNames(), ", ")+"\n\nflags:\n", out)
	if err != nil {
		return a, err
	}
	if flags.NArg() > 0 {
		return a, harness.Usagef("unexpected argument %q: see -help", flags.Arg(0))
	}
	if a.seeds < 1 {
		return a, harness.Usagef("-seeds must be at least 1")
	}
	if s.Faults, err = regexp.Compile(*faults); err != nil {
		return a, harness.Usagef("-faults: %w", err)
	}
	if s.Seed == 0 {
		s.Seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	if s.Rounds == 0 && s.Duration == 0 {
		s.Rounds = 20
	}
	s.Out = out
	return a, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	a, err := parse(args, out)
	if err != nil {
		return err
	}
	for range a.seeds {
		fmt.Fprintf(out, "seed %d\n", a.sim.Seed)
		report, err := sim.Run(ctx, a.sim)
		if report.Rounds > 0 {
			fmt.Fprint(out, report)
		}
		if failure, ok := errors.AsType[*sim.Failure](err); ok {
			fmt.Fprintln(out, failure.Details())
		}
		if err != nil {
			return err
		}
		a.sim.Seed++
	}
	return nil
}
