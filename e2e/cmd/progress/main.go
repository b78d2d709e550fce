package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: progress VERB NAME ARGUMENT...

  compile NAME [FLAG...] PACKAGE...   compiles what the packages depend on, and with -test their tests too, into the build
                                      cache; other flags are those of go build that are one word: -race, -tags=x
  run NAME COMMAND...                 runs a command
  test NAME FLAG|PACKAGE...           runs go test, prints failures and each package's result as it ends

NAME begins the lines that are printed meanwhile.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	verbs := map[string]func(context.Context, *reporter, []string) error{"compile": compile, "run": run, "test": test}
	if len(os.Args) < 4 || verbs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	r := newReporter(os.Stdout, os.Args[2])
	err := verbs[os.Args[1]](ctx, r, os.Args[3:])
	r.stop()
	var failed *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &failed) && failed.ExitCode() > 0: // the command has printed why
		os.Exit(failed.ExitCode())
	default:
		fmt.Fprintf(os.Stderr, "progress: %s: %v\n", os.Args[2], err)
		os.Exit(1)
	}
}

// command is a process that an interrupt ends as it would have ended it alone.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

func run(ctx context.Context, r *reporter, args []string) error {
	r.start(30*time.Second, func() string { return strings.Join(args[:min(3, len(args))], " ") })
	return command(ctx, args[0], args[1:]...).Run()
}
