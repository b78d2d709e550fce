// Package typed has clients of those kinds of Kubernetes' own that Isthmus reads or
// writes. client-go's clientset has one for every kind of every API group: the types of
// all groups come with it, and they are a quarter of a program. These are made of
// client-go's generic client.
//
//	clients, err := typed.New(config, httpClient)
//	pods, err := clients.Pods("linkerd").List(ctx, metav1.ListOptions{})
//
// What callers may rely on:
//
//   - A request, and what becomes of its answer, is that of client-go's clientset.
//     [New] sends none.
//   - An answer of a kind that [Scheme] does not have is an error.
//   - Clients are safe for concurrent use, and start no goroutine but those of watches.
//
// Tests use typedtest, which makes the same of client-go's fake clientset.
package typed
