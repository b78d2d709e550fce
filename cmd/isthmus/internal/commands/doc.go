// Package commands has the commands with which people look into replicas that run.
// "isthmus clusters", "isthmus services" and "isthmus explain" read pages of its admin
// server.
// "isthmus check" judges what all replicas show (package check) and, where there is no
// replica, what can be seen from here.
// "isthmus get" and "isthmus profile" open the streams that a proxy opens, and
// show what the proxy would hold after each message.
//
//	12:00:00.000  web.shop.svc.cluster.local:80: 3 endpoints (east 1, local 2)
//	  ADDRESS       CLUSTER  ZONE              WEIGHT  HINTS  POD    IDENTITY
//	  10.0.0.1:80   east     west-1a (remote)  10000   h2     web-1  web.id
//	  …
//
// Both find a replica by the kubeconfig, unless --admin or --addr has its address.
//
// Guarantees:
//
//   - A command waits for --timeout at most: for a page, or for the first message of a
//     stream. What takes longer than a second says what it waits for.
//   - Exit code 0 if what was asked for is printed, whatever it is; 1 if it could not
//     be, with why and what to do. explain also ends with 1 if the client gets nothing
//     of what was asked about, and check if a check has failed.
//   - get and profile open one stream and end with it: exit code 1, the status code,
//     and what that code means for this RPC and what a proxy does then. A signal ends
//     them with exit code 0; with --once, so does the first state. A signal also ends
//     clusters --watch, which goes on while the replica is away.
//   - Messages are applied as a proxy applies them. A message that no replica may
//     send is reported on standard error, and its usable parts are applied: nothing of
//     an endpoint or a profile that has no JSON.
//   - A state that is equal to the one before is not printed again, and messages
//     that come within 50 ms are shown as one state: a large set, and a step with
//     both an add and a remove, are several messages.
//   - Field names of -o json are stable: one object a line, whose types are in
//     internal/adminapi (commands.go). Those of get and profile have what was sent, in protobuf's
//     JSON.
//   - Whatever a server sends, no control character reaches the terminal, nor does
//     colour anything else: not files, nor a terminal if NO_COLOR is set.
//
// A command that opens a stream has two goroutines: one receives messages, the other
// applies and prints them. Only the latter touches the state.
//
// To add a command: a file with its name that has its flags, what it does, its table and its help,
// and an entry in [All] (commands.go). A command that opens a stream is a session (stream.go) with a
// state of its own, as getState is that of get (get.go). A command that reads a page embeds [Target]
// (commands.go), by which [ReadAll] asks every replica (fetch.go), and has the types of the page and
// of its own JSON in internal/adminapi. Tables are cells (cells.go), printed on a screen
// (screen.go); replicas.go compares the answers of several replicas.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package commands
