package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/client"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	os.Exit(newProgram().Run(context.Background(), cli.Process{
		Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals,
	}))
}

// newProgram returns the program with all its verbs.
func newProgram() *cli.Program {
	gateway := cli.Verb{
		Name:    "gateway",
		Aliases: []string{"destination"}, // as in the arguments of a Linkerd install
		Summary: "serve Linkerd's Destination API over this and all linked clusters",
		Run:     runGateway,
		Help:    gatewayFlags(new(options)).Help,
	}
	version := cli.Verb{
		Name:    "version",
		Aliases: []string{"-version", "--version"},
		Summary: "print the version and what it was built with: put it into bug reports",
		Run:     func(_ context.Context, p cli.Process) error { return runVersion(p) },
	}
	return &cli.Program{
		Name:  "isthmus",
		Intro: "isthmus is a multicluster federation gateway for Linkerd proxies.",
		Verbs: slices.Concat([]cli.Verb{gateway}, client.Verbs(), []cli.Verb{version}),
		Examples: []string{
			"isthmus gateway --kubeconfig ~/.kube/config",
			"isthmus get web.shop.svc.cluster.local:80 --addr localhost:8086",
			"isthmus profile 10.0.0.1:80 --addr localhost:8086",
		},
	}
}
