// Command kubectl is kubectl of the version of k8s.io/kubectl that it is built with.
//
// The Makefile and package harness build it with the oldest version that docs/install.md names. That
// version cannot share a module with the other tools: kubelet and Helm need newer versions of the same
// k8s.io modules. So Go compiles this file in the folder of k8s.io/kubectl in the module cache, with the
// go.mod and go.sum that Kubernetes published.
package main

import (
	"os"

	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	if err := cmd.NewDefaultKubectlCommand().Execute(); err != nil {
		os.Exit(1)
	}
}
