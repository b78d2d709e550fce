// Package kube provides clients for Kubernetes API servers. The clients are safe to use even with
// hostile credentials and hostile servers. The package also reads the facts that Isthmus uses to
// compare clusters.
//
//	cfg, warnings, err := kube.ReadKubeconfig(secret.Data["kubeconfig"])
//	client, err := kube.New("east", cfg, requests)
//	list, err := client.Sources.Pods.List(ctx, metav1.ListOptions{}, each)
//
// [ReadKubeconfig] checks a kubeconfig. [New] returns a client with timeouts and size limits.
// [Client.Printable] makes a server's errors safe to display. [Requests] counts requests. [Clients]
// contains client-go's clients for the API groups that Isthmus uses, and [MCS] contains clients for
// the MCS-API.
//
// The following rules apply to kubeconfigs:
//
//   - A kubeconfig cannot make Isthmus run a program, read a file, use a proxy or impersonate
//     another user.
//   - A kubeconfig is rejected if it is larger than 64 KiB, is nested too deeply, or contains a
//     duplicate field, an RSA key longer than 8192 bits, or a YAML anchor, alias or merge key.
//   - Unknown fields are ignored.
//   - Errors and warnings never quote a kubeconfig, except for short names of unknown fields.
//
// The following rules apply to requests:
//
//   - If a server does not respond, the request fails within seconds. A dial timeout detects
//     unreachable servers. Timeouts for the TLS handshake and the response header detect servers
//     that accept connections but send nothing. Pings detect servers that become unreachable later.
//   - If a server refuses a request with GOAWAY or by resetting the stream, the request is sent at
//     most three times.
//   - While a server keeps sending data, only the caller's context limits the duration of the
//     response. Package follow detects silent watches.
//   - Package decode limits the size of each object that [Client].Sources returns. Package guard
//     limits the size of responses that client-go reads from linked clusters ([Client.AddTyped]).
//     Responses that client-go reads from the local cluster may be of any size, because Isthmus
//     trusts the local API server.
//   - A Client reads at most 64 KiB of an error response, and stops reading after 5 s. The error
//     contains the status code even if the response is truncated.
//   - A Client buffers at most 512 KiB of each response before its caller reads the data.
//   - Redirects are not followed, and a response that switches protocols is an error.
//   - Client-go never retries a request, because this package hides Retry-After from client-go.
//     Errors from [Client].Sources contain the value of Retry-After.
//   - A resource counts as absent ([decode.Sources].Serves) only if the server sends valid API
//     discovery documents that do not list the resource. A 404 response or an empty list of groups
//     does not prove that a resource is absent.
//   - [Client.Server] returns what the Client has learned about the server from its requests. For
//     example, the result includes the difference between the server's clock and the local clock.
//     The result also lists the verb, resource and status code of up to 100 refused requests. If
//     the most recent request received no response, the result also includes the reason.
//   - Each Client has its own connections. Requests to a linked cluster are always sent directly to
//     the server in the kubeconfig. Requests to the local cluster respect the proxy settings in
//     environment variables such as HTTPS_PROXY.
//
// Facts are the trust anchors, the Pod networks and the server's version. The following rules apply
// to facts:
//
//   - A [Keeper] reads facts after the API server's first response, and every hour after that.
//     Viewing a page never causes a request.
//   - [Keeper.Look] reads trust anchors again if the last attempt was at least 10 s ago, and Nodes
//     if the last attempt was at least a minute ago.
//   - Calls to Look read facts about at most eight clusters at the same time. A cluster that does
//     not respond within 10 s is skipped for a minute.
//   - Reading the facts about one cluster uses at most a few megabytes of memory. The cached facts
//     use at most about 100 kB.
//   - Facts do not contain credentials. All error messages are short and safe to display.
//   - The command "isthmus check" reads the same facts with [Read] before an installation, and
//     while no replica is ready.
//
// Clients and Requests are safe for concurrent use. The package does not start goroutines, except
// for those of net/http, which end after [Client.Close].
//
// [Requests] provides the same metrics as Linkerd's destination controller, with an additional
// label for the cluster. Linkerd uses one client for Kubernetes resources and another for Linkerd
// resources. Isthmus uses a single client for all resources, and derives the label "client" from
// the path of each request.
//
// ARCHITECTURE.md, at the root of the module, shows how the packages work together.
package kube
