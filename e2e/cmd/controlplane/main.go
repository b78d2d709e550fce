package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"isthmus/e2e/cmd/internal/cli"
)

func main() {
	cli.Main("controlplane", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout) })
}

const overview = `controlplane runs Kubernetes control planes on this machine: etcd, kube-apiserver
and a few controllers, in one process per cluster, reachable on 127.0.0.1 only.
There are no nodes; Pods are what you write to the API.

  controlplane start west east     start clusters in the background, or start them again
  controlplane list                show them, their state and their kubeconfigs
  controlplane pause east          freeze one: it accepts connections and answers nothing
  controlplane resume east         let it go on
  controlplane kill east           end one without warning (kill -9)
  controlplane stop west east      end them; their data stays
  controlplane serve               run one cluster in the foreground

"controlplane VERB --help" explains more. A first look around:

  controlplane start west
  kubectl --kubeconfig "$(controlplane list --paths west)" get namespaces
`

// run is the command line without its process.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stdout, overview)
		return nil
	}
	verb, args := args[0], args[1:]
	switch verb {
	case "serve":
		return serveCommand(ctx, args, stdout)
	case "start":
		return startCommand(ctx, args, stdout)
	case "stop", "kill", "pause", "resume":
		return signalCommand(ctx, verb, args, stdout)
	case "list":
		return listCommand(ctx, args, stdout)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, overview)
		return nil
	}
	return cli.Usagef("there is no verb %q; controlplane --help lists them", verb)
}

// newFlags returns a verb's flags. Its help is the text with the flags below.
func newFlags(verb, text string, stdout io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet("controlplane "+verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {
		fmt.Fprintf(stdout, "%s\nFlags:\n", text)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		flags.SetOutput(io.Discard)
	}
	return flags
}

// parse parses a verb's flags, which may also stand behind names. It returns
// the names and what follows a "--".
func parse(flags *flag.FlagSet, args []string) (names, rest []string, err error) {
	if i := slices.Index(args, "--"); i >= 0 {
		args, rest = args[:i], args[i+1:]
	}
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, nil, err
		} else if err != nil {
			return nil, nil, cli.Usage(err)
		}
		if flags.NArg() == 0 {
			return names, rest, nil
		}
		names, args = append(names, flags.Arg(0)), flags.Args()[1:]
	}
}
