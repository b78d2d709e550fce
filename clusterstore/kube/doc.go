// Package kube makes clients of Kubernetes API servers that are safe against hostile credentials
// and servers. It also reads the facts by which two clusters are compared.
//
//	cfg, warnings, err := kube.ReadKubeconfig(secret.Data["kubeconfig"])
//	client, err := kube.New("east", cfg, requests)
//	list, err := client.Sources.Pods.List(ctx, metav1.ListOptions{}, each)
//
// [ReadKubeconfig] decides what a kubeconfig may contain. [New] sets the timeouts and size limits
// of a client. [Client.Printable] cleans a server's error texts, and [Requests] counts requests.
// [Clients] are client-go's clients of the API groups that Isthmus uses, and [MCS] are clients of
// the MCS-API.
//
// What callers may rely on about a kubeconfig:
//
//   - It never makes the process run a program, read a file, use a proxy or impersonate another
//     user.
//   - It is refused if it is larger than 64 KiB, is nested deeply, or has a duplicate field. YAML
//     anchors, aliases, merge keys, and RSA keys longer than 8192 bits are refused too.
//   - Unknown fields are ignored.
//   - Neither errors nor warnings quote it, except for short names of unknown fields.
//
// About requests:
//
//   - A server that does not respond causes an error within seconds. The dial timeout detects an
//     unreachable server. The timeouts of the TLS handshake and the response header detect a server
//     that accepts connections but sends nothing. Pings detect a server that disappears later.
//   - If a server refuses a request by GOAWAY or by resetting its stream, the request is sent three
//     times at most.
//   - A silent watch is not an error here. Package follow detects it.
//   - Package decode limits the responses for [Client].Sources object by object. Package guard
//     limits client-go's responses from linked clusters ([Client.AddTyped]). Client-go's responses
//     from the local cluster are not limited, because Isthmus trusts its API server.
//   - Only the caller's context limits the duration of a response that keeps sending.
//   - At most 64 KiB of an error's body are read, within 5 s. The error has the status even if the
//     body is cut off. net/http buffers at most 512 KiB of a response that nobody reads.
//   - Redirects are not followed, and protocols are not switched.
//   - Client-go never retries a request, because it does not see Retry-After. Errors of
//     [Client].Sources contain Retry-After (package decode).
//   - A resource only counts as absent ([decode.Sources].Serves) if API discovery reports that in
//     the form that API servers use. A 404 alone or an empty list of groups is not enough.
//   - [Client.Server] returns what responses show besides the requested data: the requests that
//     were refused, by verb and resource, the server's clock, and why there was no response. At
//     most 100 refused requests are recorded.
//   - Each Client has its own connections. A linked cluster is reached directly at its kubeconfig's
//     server. Only the local cluster may be reached by the environment's proxy.
//
// About facts (trust anchors, Pod networks and the server's version):
//
//   - A [Keeper] reads them once the API server has responded, and then every hour. Viewing a page
//     does not cause a request.
//   - [Keeper.Look] rereads trust anchors that are at least 10 s old, and Nodes if the last attempt
//     was at least a minute ago. Eight clusters are read at a time. A cluster that does not respond
//     within 10 s is skipped for a minute.
//   - Reading takes a few megabytes at most for one cluster. About 100 kB of facts are cached.
//   - No fact contains credentials. Error texts are printable and short.
//   - Before an installation, and while no replica is ready, "isthmus check" reads the same facts
//     by [Read].
//
// Clients and Requests are safe for concurrent use. The package starts no goroutines of its own.
// The goroutines of connections end when the connections are idle and [Client.Close] is called.
//
// Requests has the metrics of Linkerd's destination controller, with an additional label for the
// cluster. Linkerd has one client for Kubernetes' own resources and one for Linkerd's. Isthmus has
// one client for both, so the label "client" depends on the path of the request.
//
// ARCHITECTURE.md in the module's root shows how the packages work together.
package kube
