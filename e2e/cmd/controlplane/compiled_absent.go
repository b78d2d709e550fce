//go:build assets

package main

import (
	"context"
	"errors"

	"isthmus/e2e/harness/assets"
)

// startCompiled returns an error, because this binary only supports prebuilt servers.
func startCompiled(context.Context, serverOptions) (*servers, error) {
	return nil, errors.New("this binary contains no etcd and no API server: set " + assets.Env +
		", or build it without -tags=" + assets.Tag)
}
