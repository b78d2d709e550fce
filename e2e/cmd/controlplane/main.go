package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"isthmus/e2e/harness"
)

func main() {
	harness.Main("controlplane", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout) })
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stdout, help)
		return nil
	}
	if args[0] != "serve" {
		return harness.Usagef("there is no verb %q: the only one is serve", args[0])
	}
	return serveCommand(ctx, args[1:], stdout)
}
