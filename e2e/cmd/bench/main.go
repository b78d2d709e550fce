package main

import (
	"context"
	"os"

	"isthmus/e2e/cmd/internal/cli"
)

func main() {
	cli.Main("bench", func(ctx context.Context) error { return run(ctx, os.Args[1:]) })
}
