// Command manifests prints a directory of manifests for kubectl apply. It builds them like kubectl
// kustomize and sets the image and its version.
//
//	make manifests IMAGE=registry.example.com/isthmus VERSION=v1 | kubectl apply -f -
//
// The arguments are variables of make, so that error messages contain the names that users have
// typed.
package main
