package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	os.Exit(run(context.Background(), process{
		args: os.Args[1:], stdout: os.Stdout, stderr: os.Stderr, signals: signals,
	}))
}

// process is what a run gets from the operating system.
type process struct {
	args           []string
	stdout, stderr io.Writer
	signals        <-chan os.Signal
}

// usageError is an error in the arguments: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef returns an error in the arguments.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run does what the arguments say and returns the exit code.
func run(ctx context.Context, p process) int {
	verb, err := dispatch(ctx, p)
	if err == nil {
		return 0
	}
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(p.stderr, "isthmus%s: %v (isthmus%s --help explains)\n", verb, err, verb)
		return 2
	}
	fmt.Fprintf(p.stderr, "isthmus%s: %v\n", verb, err)
	return 1
}

// dispatch runs the verb; the verb it returns is for messages: empty, or with a
// space before it.
func dispatch(ctx context.Context, p process) (verb string, err error) {
	if len(p.args) == 0 {
		fmt.Fprint(p.stderr, overview)
		return "", usagef("no verb given")
	}
	verb, rest := p.args[0], p.args[1:]
	switch verb {
	case "gateway", "destination":
		return " " + verb, gatewayVerb(ctx, p, rest)
	case "get":
		return " get", getVerb(ctx, p, rest)
	case "profile":
		return " profile", profileVerb(ctx, p, rest)
	case "version", "-version", "--version":
		if len(rest) == 1 && slices.Contains([]string{"-h", "--h", "-help", "--help"}, rest[0]) {
			return " version", helpVerb(p, nil)
		}
		return " version", versionVerb(p, rest)
	case "help", "-help", "--help", "-h", "--h":
		return " help", helpVerb(p, rest)
	}
	return "", usagef("unknown verb %q: gateway, get, profile, version and help are known", verb)
}

const overview = `isthmus is a multicluster federation gateway for Linkerd proxies.

Usage: isthmus VERB [FLAGS]

  gateway      serve Linkerd's Destination API over this and all linked clusters
               (alias: destination)
  get          show what a proxy would be told about a service's endpoints, live
  profile      show what a proxy would be told about a destination's protocol,
               routes and retries, live
  version      print the version and what it was built with: put it into bug reports
  help [VERB]  explain isthmus, or a verb and its flags

Examples:
  isthmus gateway --kubeconfig ~/.kube/config
  isthmus get web.shop.svc.cluster.local:80 --addr localhost:8086
  isthmus profile 10.0.0.1:80 --addr localhost:8086
`

// helpVerb explains isthmus, or one verb.
func helpVerb(p process, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(p.stdout, overview)
		return nil
	}
	switch args[0] {
	case "gateway", "destination":
		gatewayFlags(&options{}).help(p.stdout)
	case "get":
		getFlags(&followOptions{}).help(p.stdout)
	case "profile":
		profileFlags(&followOptions{}).help(p.stdout)
	case "version", "help", "-help", "--help", "-h":
		fmt.Fprint(p.stdout, overview)
	default:
		return usagef("unknown verb %q: gateway, get, profile, version and help are known", args[0])
	}
	return nil
}
