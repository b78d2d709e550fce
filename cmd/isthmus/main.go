package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/cmd/isthmus/internal/commands/links"

	"isthmus/cmd/isthmus/internal/server"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	name, first := calledAs(os.Args[0])
	os.Exit(newProgram(name).Run(context.Background(), cli.Process{
		Args:        slices.Concat(first, os.Args[1:]),
		Stdin:       os.Stdin,
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		Signals:     signals,
		Interactive: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
	}))
}

// calledAs returns the program name to show in messages, and additional arguments that depend on
// the name of the executable. kubectl runs kubectl-isthmus for "kubectl isthmus", and runs
// kubectl_complete-isthmus to complete arguments in a shell.
func calledAs(file string) (name string, first []string) {
	switch strings.TrimSuffix(filepath.Base(file), ".exe") {
	case "kubectl-isthmus":
		return "kubectl isthmus", nil
	case "kubectl_complete-isthmus":
		return "kubectl isthmus", []string{cli.CompleteCommand}
	}
	return "isthmus", nil
}

// newProgram returns the program with all its commands. Do not call Run more than once, because the
// flags keep their values between calls.
func newProgram(name string) *cli.Program {
	return &cli.Program{
		Name:  name,
		Build: cli.OwnBuild(),
		Intro: "isthmus federates services from several clusters for Linkerd proxies.",
		Groups: []cli.Group{
			{Title: "Serve", Commands: []cli.Command{server.Command()}},
			{Title: "Inspect a running replica", Commands: commands.All()},
			{Title: "Link clusters", Commands: links.All()},
			{Title: "Other", Commands: []cli.Command{
				commands.PostRender(),
				commands.Version(cli.OwnBuild(), cli.WriteVersion),
			}},
		},
		Short: map[string][]string{"-version": {"version", "--client"}, "--version": {"version", "--client"}},
		Examples: []string{
			"isthmus gateway --kubeconfig ~/.kube/config",
			"isthmus link east --context east --apply",
			"isthmus clusters",
			"isthmus services shop/web --context west",
			"isthmus check --wait 5m",
			"isthmus get web.shop.svc.cluster.local:80",
			"isthmus profile 10.0.0.1:80 --addr localhost:8086",
		},
	}
}
