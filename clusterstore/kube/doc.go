// Package kube makes clients of Kubernetes API servers that are safe against hostile
// credentials and servers. All checks and limits are here, in one place to review:
// what a kubeconfig may contain ([ReadKubeconfig]), where clients connect, with which
// timeouts and sizes of answers ([New]), how a server's error texts are cleaned
// ([Client.Printable]), and metrics of requests ([Requests]).
//
//	cfg, warnings, err := kube.ReadKubeconfig(secret.Data["kubeconfig"])
//	client, err := kube.New("east", cfg, requests)
//	list, err := client.Sources.Pods.List(ctx, metav1.ListOptions{}, each)
//
// What callers may rely on:
//
//   - A kubeconfig never makes the process run a program, read a file, use a proxy,
//     or impersonate another user. It has 64 KiB at most, and is refused if it has YAML
//     anchors, aliases or merge keys, is nested deeply, has a field twice, or has RSA
//     keys longer than 8192 bits. Unknown fields are ignored. Neither errors nor warnings quote
//     anything but short names of unknown fields.
//   - A server that does not answer is an error within seconds, whether it can't be
//     reached (dial timeout), accepts connections and sends nothing (timeouts of TLS
//     handshake and response header), or disappears later (pings). So is one that
//     refuses a request again and again (GOAWAY, reset streams): it gets it three times
//     at most. A watch that pauses is not: that is for the reader to notice
//     (clusterstore/follow does).
//   - What is followed comes by [Client].Sources, which package decode bounds, object by object.
//     What client-go asks of a linked cluster ([Client.AddTyped]) package guard bounds. What it asks of the own
//     cluster, whose API server decides about all that the gateway does, has no bound. An answer that goes on has no
//     limit of time but the caller's context.
//   - Of the body of an error 64 KiB are read, for 5 s at most; the error has the status in any
//     case (body.go). net/http keeps 512 KiB at most of an answer that nobody reads.
//   - No redirect is followed, no protocol switched, and client-go retries nothing by
//     itself: it does not see Retry-After. Errors of [Client].Sources have it (package decode).
//   - A resource is absent ([decode.Sources].Serves) only if API discovery reports that in a form in
//     which API servers report it: not by a 404 alone, nor by an empty list of groups.
//   - [Client.Server] has what answers show besides what was asked for: refused requests by verb and
//     resource, the server's clock, why there was none. It keeps 100 of these at most.
//   - Each Client has connections of its own. A linked cluster is reached by its
//     kubeconfig alone; only the gateway's own cluster by the environment's proxy.
//
// [Clients] are client-go's clients of the API groups that Isthmus reads or writes with client-go, as one struct; [MCS]
// are clients of the MCS-API. Making them sends no request. Tests use package kubetest, which has client-go's fakes.
//
// A [Keeper] reads the facts by which two clusters are compared (trust anchors, Pod networks, the server's version):
//
//   - It reads once the API server has answered, and again every hour, not each time somebody looks at a page.
//   - [Keeper.Look] reads trust anchors again that are at least 10 s old, and Nodes if the last read was a minute ago,
//     in the Keeper's own context. Eight clusters are looked at at a time. A cluster that does not answer within 10 s is
//     skipped for a minute.
//   - Reading takes a few megabytes at most for one cluster; about 100 kB of facts are cached.
//   - No fact holds credentials. Error texts are printable and short.
//
// Clients and Requests are safe for concurrent use. The package starts no goroutine;
// those of connections end when they are idle and [Client.Close] is called.
//
// Requests have the series of Linkerd's destination controller, with a cluster label
// added. Linkerd has a client for Kubernetes' own resources and one for its own; here
// a cluster has one for both, so a request's path decides on the label "client".
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package kube
