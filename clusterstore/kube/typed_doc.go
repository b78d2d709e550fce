// Package typed has client-go's clients of those API groups of Kubernetes' own that Isthmus reads or
// writes by itself, as one struct: a cluster has clients of six groups, not of all. Beside these it has
// clients of the MCS-API.
//
//	clients, err := typed.New(config, httpClient)
//	pods, err := clients.Pods("linkerd").List(ctx, metav1.ListOptions{})
//
// [New] sends no request. Clients are safe for concurrent use, and start no goroutine but those
// of watches. Tests use typedtest, which has client-go's fakes.
package kube
