//go:build !linux

package main

import (
	"context"
	"errors"

	"isthmus/e2e/harness"
)

func main() {
	harness.Main("mcs-conformance", func(context.Context) error {
		return errors.New("needs Linux, because it creates network namespaces: run it in a virtual machine")
	})
}
