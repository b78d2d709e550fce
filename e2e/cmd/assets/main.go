// Command assets prints which ready-made kube-apiserver and etcd clusters are run with. It fails if those that
// KUBEBUILDER_ASSETS names cannot be used. See package isthmus/e2e/harness/assets.
//
// The command imports nothing else, because make runs it before the first build.
package main

import (
	"context"
	"fmt"
	"os"

	"isthmus/e2e/harness/assets"
)

func main() {
	found, err := assets.Find(context.Background())
	if err != nil {
		fmt.Fprintf(os.Stderr, "assets: %v\n", err)
		os.Exit(1)
	}

	fmt.Printf("== %s: kube-apiserver %s and etcd %s of %s\n",
		assets.Env, found.APIServer.Version, found.Etcd.Version, found.Dir)
}
