package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"isthmus/e2e/cases"
	"isthmus/e2e/harness"
)

func main() {
	harness.Main("scenario", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout) })
}

const overview = `scenario runs case files (*.txtar) against three Kubernetes API servers and a gateway.

usage: scenario [flags] FILE|DIR...

Start three clusters (west, east, north) and a replica of Isthmus whose local cluster is
west, run every case, and stop everything. Missing programs are built first. The file
e2e/testdata/README.md describes the commands of cases.

  scenario e2e/testdata/cases                     run all cases
  scenario -run '^plain-' -v e2e/testdata/cases   run some cases, and show each command
  scenario -list e2e/testdata/cases               list what each case checks
  scenario -count 20 mine.txtar                   run one case 20 times
  scenario -gateway ./isthmus mine.txtar          test another build of Isthmus

For a failed case, the output contains the command, the expected and the actual result, the
recent messages of the case's streams, and the end of Isthmus's log. If a case fails, the
exit code is 1.

flags:
`

type arguments struct {
	start   cases.StartConfig
	verbose bool
	list    bool
	log     string
	only    *regexp.Regexp
	count   int
	paths   []string
}

func parse(args []string, out io.Writer) (arguments, error) {
	var a arguments
	flags := flag.NewFlagSet("scenario", flag.ContinueOnError)
	run := flags.String("run", "", "run only the cases whose name matches this regular expression")
	flags.StringVar(
		&a.start.Gateway,
		"gateway",
		"",
		"`path` of the isthmus binary; if empty, it is built",
	)
	flags.StringVar(
		&a.start.Controlplane,
		"controlplane",
		"",
		"`path` of the controlplane binary; if empty, it is built",
	)
	flags.StringVar(
		&a.start.Dir,
		"dir",
		"",
		"`directory` in which to keep the clusters' state; if empty, a temporary one",
	)
	flags.StringVar(&a.log, "log", "", "`file` for the whole log of the replica")
	flags.IntVar(&a.count, "count", 1, "number of times to run the cases")
	flags.BoolVar(&a.list, "list", false, "print what each case checks, without running it")
	flags.BoolVar(&a.verbose, "v", false, "show each command when it begins")
	err := harness.ParseFlags(flags, args, overview, out)
	if err != nil {
		return a, err
	}
	if a.only, err = regexp.Compile(*run); err != nil {
		return a, harness.Usagef("-run: %w", err)
	}
	if a.paths = flags.Args(); len(a.paths) == 0 {
		return a, harness.Usagef("no case files given; see -help")
	}
	if a.count < 1 {
		return a, harness.Usagef("-count must be at least 1")
	}
	return a, nil
}

// load parses all cases and reports all mistakes together.
func load(a arguments) ([]*cases.Case, error) {
	var all []*cases.Case
	var errs []error
	for _, path := range a.paths {
		files := []string{path}
		if info, err := os.Stat(path); err != nil {
			errs = append(errs, err)
			continue
		} else if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*"+cases.Extension)); err != nil {
				errs = append(errs, err)
			}
		}
		for _, file := range files {
			c, err := cases.Load(file)
			if err != nil {
				errs = append(errs, err)
			} else if a.only.MatchString(c.Name) {
				all = append(all, c)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, harness.Usage(err)
	}
	if len(all) == 0 {
		return nil, harness.Usagef("no case matches")
	}
	return all, nil
}

// list prints a description of each case. A star marks cases that also apply to other servers.
func list(out io.Writer, all []*cases.Case) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range all {
		mark := " "
		if c.EveryServer {
			mark = "*"
		}
		fmt.Fprintf(w, "%s %s\t%s\n", mark, c.Name, c.About)
	}
	return w.Flush()
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	a, err := parse(args, out)
	if err != nil {
		return err
	}
	all, err := load(a)
	if err != nil {
		return err
	}
	if a.list {
		return list(out, all)
	}
	if a.start.Dir == "" {
		if a.start.Dir, err = os.MkdirTemp("", "scenario-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(a.start.Dir)) }()
	}
	if a.log != "" {
		file, createErr := os.Create(a.log)
		if createErr != nil {
			return createErr
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		a.start.Output = file
	}
	began := time.Now()
	env, stop, err := cases.Start(ctx, a.start)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	fmt.Fprintf(out, "clusters and gateway are there after %.1fs\n", time.Since(began).Seconds())
	return runCases(ctx, a, env, all, out)
}

func runCases(ctx context.Context, a arguments, env cases.Environment, all []*cases.Case, out io.Writer) (err error) {
	opt := cases.Options{}
	if a.verbose {
		opt.Trace = func(line string) { fmt.Fprintf(out, "%s   %s\n", time.Now().Format("15:04:05.000"), line) }
	}
	runner, err := cases.NewRunner(env, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	began := time.Now()
	passed := 0
	var failed []string
	for range a.count {
		for _, c := range all {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			result := runner.Run(ctx, c)
			if result.Err != nil {
				failed = append(failed, c.Name)
				text := strings.TrimRight(result.Err.Error(), "\n")
				fmt.Fprintf(
					out,
					"FAIL  %s %.1fs\n      %s\n",
					c.Name,
					result.Took.Seconds(),
					strings.ReplaceAll(text, "\n", "\n      "),
				)
				continue
			}
			passed++
			fmt.Fprintf(out, "ok    %s %.1fs\n", c.Name, result.Took.Seconds())
		}
	}
	fmt.Fprintf(out, "\n%d passed, %d failed in %.1fs\n", passed, len(failed), time.Since(began).Seconds())
	if len(failed) > 0 {
		fmt.Fprintf(out, "failed: %s\n", strings.Join(failed, " "))
		return harness.ErrPrinted
	}
	return nil
}
