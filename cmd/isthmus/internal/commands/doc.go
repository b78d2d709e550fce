// Package commands implements the commands that inspect running replicas.
//
//   - "isthmus clusters", "isthmus services", "isthmus exports" and "isthmus explain" read pages of
//     the admin server.
//   - "isthmus check" evaluates the pages of all replicas with package check. If there is no
//     replica, "isthmus check" evaluates the objects that the user can read in the clusters.
//   - "isthmus get" and "isthmus profile" open the same streams that a proxy opens. After each
//     message, the commands show the state that a proxy would be in after receiving the same
//     message.
//
// "isthmus get" prints the state as a table:
//
//	12:00:00.000  web.shop.svc.cluster.local:80: 3 endpoints (east 1, local 2)
//	  ADDRESS       CLUSTER  ZONE              WEIGHT  HINTS  POD    IDENTITY
//	  10.0.0.1:80   east     west-1a (remote)  10000   h2     web-1  web.id
//	  …
//
// The commands find a replica through the kubeconfig, unless --admin or --addr sets its address.
//
// Callers may rely on the following:
//
//   - A command waits at most --timeout for a page or for the first message of a stream. After one
//     second, the command prints what it is waiting for.
//   - Only "isthmus check" connects to linked clusters, and only if there is no replica or --pre is
//     set. To connect to linked clusters, "isthmus check" uses the credentials in the link Secrets.
//     If "isthmus check" does not use a replica, the checks take at most 20 s, connect to at most
//     48 clusters at a time, and do not change any objects.
//   - The exit code is 0 if the requested information was printed, and 1 otherwise. The error
//     message says what went wrong and how to fix it. "isthmus explain" also exits with code 1 if
//     the client does not receive the requested endpoints. "isthmus check" also exits with code 1
//     if a check fails.
//   - "isthmus get" and "isthmus profile" open one stream. When the stream ends, the commands
//     explain the stream's gRPC status and how a proxy reacts to it, and then exit with code 1. If
//     "isthmus get" or "isthmus profile" receives a signal, the command exits with code 0. With
//     --once, "isthmus get" and "isthmus profile" print the first state and then exit with code 0.
//   - "isthmus clusters --watch" keeps running even while the replica is unreachable. If "isthmus
//     clusters --watch" receives a signal, the command exits with code 0.
//   - The commands apply messages in the same way as a proxy does. If part of a message is invalid,
//     the commands print an error to standard error and apply the rest of the message. Endpoints
//     and profiles that cannot be encoded as JSON are dropped.
//   - A state that equals the previous state is not printed again. When a message arrives, the
//     command waits 50 ms for further messages before it prints the resulting state. A replica
//     needs several messages for a large set of endpoints, and for a change that both adds and
//     removes endpoints.
//   - The field names of -o json are stable. Each line is one object. Package internal/adminapi
//     (commands.go) defines the types of the objects. The output of "isthmus get" and "isthmus
//     profile" contains the replica's message in the protobuf JSON format.
//   - Control characters from a server never reach the terminal. Output to a file contains no
//     colors. Output to a terminal contains no colors if NO_COLOR is set.
//
// A command that opens a stream uses two goroutines. One goroutine receives messages. The other
// goroutine applies the messages and prints the resulting state, and is the only goroutine that
// accesses the state.
//
// To add a command, create a file named after the command, and add the command to [All]
// (commands.go). The file contains the flags, code, table and help text of the command.
//
//   - A command that opens a stream uses a session (stream.go) with a state type of its own, such
//     as getState in get.go.
//   - A command that reads a page embeds [Target] (commands.go). [ReadAll] queries every replica
//     (fetch.go). The types of the page and of the JSON output belong in internal/adminapi.
//   - Tables consist of cells (cells.go) and are printed on a screen (screen.go). replicas.go
//     compares the pages of several replicas.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package commands
