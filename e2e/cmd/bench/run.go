package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"isthmus/e2e/bench"
	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/harness"
)

const help = `Measure Isthmus side by side with a bare gRPC server that sends the same bytes
("the floor"), and print a table. If a target is missed, the exit code is 1. Each
trial waits until the processors are idle, but at most 20 s. If the processors are
still busy then, the log shows their use.

  bench [FLAGS]           run the trials
  bench floor FILE        run the floor with the messages that bench has recorded in FILE
  bench list KUBECONFIG   run the floor of a cold start: list the resources that Isthmus lists

Flags:
`

type options struct {
	bin, out, run string
	growth        bool
}

func (o options) mode() bench.Mode {
	if o.growth {
		return bench.Growth
	}
	return bench.Costs
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.bin, "bin", "", "use the program isthmus in this `directory` (default: the directory of bench)")
	flags.StringVar(&o.out, "out", filepath.Join("out", "bench"), "write results to this `directory`")
	flags.StringVar(&o.run, "run", "", "run only the trials whose names match this `regexp`")
	flags.BoolVar(&o.growth, "growth", false,
		"run the trials of several sizes, and print how costs grow with the size")
	if err := harness.ParseFlags(flags, args, help, os.Stdout); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, harness.Usagef("%q is not understood; see bench -help", flags.Arg(0))
	}
	if o.bin == "" {
		self, err := os.Executable()
		if err != nil {
			return o, err
		}
		o.bin = filepath.Dir(self)
	}
	o.out, err = filepath.Abs(o.out)
	return o, err
}

func (o options) lab() (*bench.Lab, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	lab := &bench.Lab{
		Scale:   bench.Full(),
		Dir:     o.out,
		Isthmus: filepath.Join(o.bin, "isthmus"),
		Floor:   []string{self, "floor"},
		List:    []string{self, "list"},
		Log:     func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	}
	return lab, os.MkdirAll(o.out, 0o755)
}

// run runs the command. When it returns, all processes that it started have ended.
func run(ctx context.Context, args []string) error {
	verb := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	switch {
	case verb == "floor" && len(args) == 1:
		return bench.ServeFloor(args[0], os.Stdin, os.Stdout)
	case verb == "floor":
		return harness.Usagef("floor takes one argument, the file with the recording")
	case verb == "list" && len(args) == 1:
		n, err := fleet.List(ctx, args[0])
		if err == nil {
			fmt.Println(n)
		}
		return err
	case verb == "list":
		return harness.Usagef("list takes one argument, the kubeconfig of a simulated cluster")
	case verb != "":
		return harness.Usagef("%q is no verb; see bench -help", verb)
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	lab, err := o.lab()
	if err != nil {
		return err
	}
	return measure(ctx, o, lab)
}

// measure runs the selected trials. It prints the table and writes the results even if a trial
// fails.
func measure(ctx context.Context, o options, lab *bench.Lab) error {
	trials := bench.Trials(lab.Scale, o.mode())
	asked, err := regexp.Compile(o.run)
	if err != nil {
		return harness.Usagef("-run: %w", err)
	}
	if trials = slices.DeleteFunc(trials, func(t bench.Trial) bool { return !asked.MatchString(t.Name) }); len(
		trials,
	) == 0 {
		return harness.Usagef("-run %q matches no trial", o.run)
	}
	began := time.Now()
	results, failed := lab.Run(ctx, trials)
	if len(results) == 0 {
		return failed
	}
	path := filepath.Join(o.out, string(o.mode())+".json")
	return errors.Join(failed, keep(bench.NewReport(results), time.Since(began), path))
}

// keep writes and prints the results. It returns an error if a target is missed.
func keep(report *bench.Report, took time.Duration, path string) error {
	if err := report.Write(path); err != nil {
		return err
	}
	fmt.Printf("%s\nmeasured in %.0f s; all of it is in %s\n", report.Table(), took.Seconds(), path)
	return report.Err()
}
