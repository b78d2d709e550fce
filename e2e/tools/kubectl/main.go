// Command kubectl runs kubectl in the version of the k8s.io/kubectl module that it is built with.
//
// The Makefile and package harness build it with the oldest version that docs/install.md supports.
// That version cannot share a module with the other tools, because the kubelet and Helm need newer
// versions of the same k8s.io modules. Go therefore compiles this file in the directory of
// k8s.io/kubectl in the module cache, with the go.mod and go.sum published by Kubernetes.
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
