// Package kube makes clients of Kubernetes API servers that a hostile credential
// or server can't hurt. All that guards against either is here, in one place to
// review: what a kubeconfig may hold ([ReadKubeconfig]), where and how long we
// connect and what an answer may take ([New]), what of a server's words is shown
// ([Client.Printable]), and what is counted of all that ([Requests]). It does not
// know what becomes of what its clients read.
//
//	cfg, warnings, err := kube.ReadKubeconfig(secret.Data["kubeconfig"])
//	client, err := kube.New("east", cfg, requests)
//	pods, err := client.Core.Pods("").List(ctx, metav1.ListOptions{})
//
// What callers may rely on:
//
//   - A kubeconfig never makes the process run a program, read a file, take a
//     detour by a proxy, or act as somebody else. Neither errors nor warnings
//     quote it.
//   - Every way that an API server can be away is an error within seconds: it is
//     not there (dial), accepts and is silent (handshake, response header), or went
//     away without a word (pings). A body that pauses is for the reader to watch.
//   - No answer but a watch is longer than 256 MiB, no redirect is followed, and
//     nothing is tried again unseen, or for as long as a server says.
//   - A request that had no answer is an error that client-go does not take for the
//     end of a watch that went well.
//   - Each Client has connections of its own. A linked cluster is reached as its
//     kubeconfig says; only the gateway's own cluster by the environment's proxy.
//
// Clients and Requests are safe for concurrent use. Nothing here starts a
// goroutine of its own, but connections have theirs until they are idle and
// [Client.Close] is called.
//
// Requests have the series of Linkerd's destination controller, by cluster
// besides. Which client a request belongs to goes by its path, since a cluster has
// one client for all.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package kube
