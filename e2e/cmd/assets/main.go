// Command assets prints the prebuilt kube-apiserver and etcd that clusters use. It fails if the
// programs in the directory from KUBEBUILDER_ASSETS cannot be used. See package
// isthmus/e2e/harness/assets.
//
// The command only imports the standard library and that package, because make runs it before the
// first build.
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
