// Command assets prints which ready-made kube-apiserver and etcd clusters are run with. It fails if those that
// KUBEBUILDER_ASSETS names cannot be used. See package isthmus/e2e/assets.
package main

import (
	"context"
	"fmt"

	"isthmus/e2e/assets"
	"isthmus/e2e/cmd/internal/cli"
)

func main() {
	cli.Main("assets", func(ctx context.Context) error {
		found, err := assets.Find(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("== %s: kube-apiserver %s and etcd %s of %s\n",
			assets.Env, found.APIServer.Version, found.Etcd.Version, found.Dir)
		return nil
	})
}
