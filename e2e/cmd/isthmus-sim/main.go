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

const overview = `isthmus-sim runs a gateway amid clusters and clients that change, fail and misbehave.

usage: isthmus-sim [flags]

It starts light API servers, a real gateway that is local to the first of them, and model
proxies. Then, step by step, services grow, shrink, move and change; clusters are linked,
unlinked, cordoned, given other credentials and put behind gateways, which move, die and come
back; Services prefer some clusters to others;
clusters export Services, and users have others at the names at which these are written;
API servers refuse, fall silent, forget or fail; clients reconnect, leave or stop reading.
Checked are

  the protocol      only an add or no_endpoints comes first, within 3 s, and no add is empty
  no flaps          an address that is offered all the time, and not by a cluster that is only
                    used if others do not suffice, is never taken away in between
  no dips           there are never fewer endpoints than there could always be, up to min-ready
  convergence       after each round every client holds exactly what follows from the objects
  exports           no Service or ServiceImport without the gateway's mark is changed, and in
                    the end there are those that follow from what is exported, each of the clusters
                    that export it, and the gateway's plan changes nothing
  outages           a gateway that is replaced while a cluster is unreachable serves the cluster from a
                    copy, and no client loses an endpoint
  the gateway       goes on running, and ready

  isthmus-sim                                    20 rounds of a seed of its own
  isthmus-sim -seed 7 -rounds 3 -v               the same again, and each step shown
  isthmus-sim -seeds 10                          ten seeds, the first given by -seed
  isthmus-sim -clusters 200 -services 5 -duration 5m
  isthmus-sim -faults '^(refuse|silent)$'        only those faults; -faults none: none

What happens, and in which order, follows from the seed and the flags for how much
there is; when exactly, and what meets what in the gateway, does not. So a failure is
looked for by its seed, and may need several runs to come again. A failure is printed with
its seed, what was expected, what happened to the service, what the client was sent, and
the end of the gateway's log. The exit code is 1 then.

faults: `

type arguments struct {
	sim   sim.Config
	seeds int
}

func parse(args []string, out io.Writer) (arguments, error) {
	var a arguments
	flags := flag.NewFlagSet("isthmus-sim", flag.ContinueOnError)
	s := &a.sim
	flags.Uint64Var(&s.Seed, "seed", 0, "`number` that all follows from; 0: one of the time")
	flags.IntVar(&a.seeds, "seeds", 1, "so many seeds, one after the other")
	flags.IntVar(&s.Clusters, "clusters", 6, "clusters, the local one too")
	flags.IntVar(&s.Services, "services", 5, "services that clusters have in common")
	flags.IntVar(&s.Endpoints, "endpoints", 5, "endpoints of a service in a cluster, on average, at first")
	flags.IntVar(&s.Clients, "clients", 60, "clients, each with one stream")
	flags.IntVar(&s.Steps, "steps", 200, "steps of a round, at most")
	flags.DurationVar(&s.Pace, "pace", 5*time.Millisecond, "time between steps, on average")
	flags.IntVar(&s.Rounds, "rounds", 0, "rounds; 20 unless that or a -duration is given")
	flags.DurationVar(&s.Duration, "duration", 0, "no round begins after that")
	flags.DurationVar(&s.Within, "within", 20*time.Second, "how long it may take until all is right once all is healed")
	flags.StringVar(&s.Gateway, "gateway", "", "`path` of the isthmus command; built from the repository unless given")
	flags.BoolVar(&s.Verbose, "v", false, "show each step")
	faults := flags.String("faults", ".", "`regular expression` of the faults that may happen")
	err := harness.ParseFlags(flags, args, overview+strings.Join(sim.FaultNames(), ", ")+"\n\nflags:\n", out)
	if err != nil {
		return a, err
	}
	if flags.NArg() > 0 {
		return a, harness.Usagef("%q is no flag; see -help", flags.Arg(0))
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
