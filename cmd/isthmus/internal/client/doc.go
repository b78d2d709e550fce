// Package client has the verbs with which people look into a gateway that runs:
// "isthmus get" and "isthmus profile" open the streams that a proxy opens, and
// show what the proxy would hold after each message.
//
//	12:00:00.000  web.shop.svc.cluster.local:80: 3 endpoints (east 1, local 2)
//	  ADDRESS       CLUSTER  ZONE              WEIGHT  HINTS  POD    IDENTITY
//	  10.0.0.1:80   east     west-1a (remote)  10000   h2     web-1  web.id
//	  …
//
// Guarantees:
//
//   - A verb opens one stream and ends with it: exit code 1, the status code, and
//     what that code means for this RPC and what a proxy does then. A signal ends
//     it with exit code 0; with --once, so does the first state.
//   - Messages are applied as a proxy applies them. A message that no gateway may
//     send is reported on standard error, and its usable parts are applied.
//   - A state that is equal to the one before is not printed again, and messages
//     that come within 50 ms are shown as one state: a large set, and a step with
//     both an add and a remove, are several messages.
//   - Field names of -o json are stable: one object a line.
//   - Whatever a server sends, no control character reaches the terminal.
//
// A verb has two goroutines: one receives messages, the other applies and prints
// them. Only the latter touches the state.
//
// To add a verb: a file with its name that has its flags, help and run function,
// and an entry in [Verbs]. A verb that opens a stream is a session (stream.go)
// with a state of its own, as get_state.go and get_table.go are those of get.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package client
