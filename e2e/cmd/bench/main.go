package main

import (
	"context"
	"os"

	"isthmus/e2e/harness"
)

func main() {
	harness.Main("bench", func(ctx context.Context) error { return run(ctx, os.Args[1:]) })
}
