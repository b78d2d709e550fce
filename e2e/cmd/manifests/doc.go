// Command manifests prints what would be applied to a cluster: a folder of manifests, built as
// kubectl kustomize builds it, with the image and its version filled in.
//
//	make manifests IMAGE=registry.example.com/isthmus VERSION=v1 | kubectl apply -f -
//
// Its arguments are make's variables, so that its errors name what the user has written.
package main
