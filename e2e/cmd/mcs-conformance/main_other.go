//go:build !linux

package main

import (
	"context"
	"errors"

	"isthmus/e2e/cmd/internal/cli"
)

func main() {
	cli.Main("mcs-conformance", func(context.Context) error {
		return errors.New("needs Linux, because it creates network namespaces: run it in a virtual machine")
	})
}
