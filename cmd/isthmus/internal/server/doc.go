// Package server implements the command "isthmus gateway". The package defines the command's flags,
// builds a replica from its parts, and starts and stops the parts. The package also provides the
// replica's metrics, log and traces.
//
//	program := cli.Program{Groups: []cli.Group{{Title: "Serve", Commands: []cli.Command{server.Command()}}}}
//
// To read the package, start at run in run.go. The function run checks the flags, newReplica builds
// each part from the parts that it depends on, and replica.run starts and stops the parts.
//
// Callers may rely on the following:
//
//   - The server accepts all flags of Linkerd's destination controller, with one dash or two. The
//     arguments of a Linkerd install work unchanged, since "destination" is an alias of "gateway".
//   - The replica listens on the gRPC address only once it is ready.
//   - The replica opens the admin address first and closes it last.
//   - GOGC adapts to the memory in use, unless the environment sets GOGC.
//   - An unusable trace collector is logged and has no other effect.
//   - After a SIGTERM, the replica moves proxies to other replicas before it stops serving. A
//     second signal ends the process at once.
//   - At the end of a shutdown, the last spans have half a second to be sent.
//
// The log has the following properties:
//
//   - A logger writes a burst of logBurst lines with the same message and then one line per second.
//     The next line that it writes has the number of dropped lines in the field "dropped".
//     Therefore neither a client nor a broken cluster can flood the log.
//   - Debug lines are not limited, since --log-level requests them.
//   - Every logger that With returns, and therefore every cluster's logger, has its own limit. No
//     logger silences another one. The function withOwnLimit creates such a logger for a library,
//     and perName one for each cluster or namespace.
//   - The memory for the limits is bounded for any set of messages.
//   - A line is written in one piece before the call that logs it returns. Nothing is buffered.
//   - The lines of client-go have the logger name "client-go". The level debug adds its requests
//     (method, URL and status). The level trace adds request headers, in which client-go masks
//     credentials.
//   - Response headers are never logged, since a server may return a token in them. Bodies of
//     requests and responses are never logged, since they include link Secrets.
//
// Each part runs in its own goroutine. The parts are the local cluster, the linked clusters, the
// writers, the admin server, traces and the gRPC server. If one part fails, the replica stops the
// other parts and the process fails with the same error.
//
// To add a flag:
//
//   - Add a field to options, preferenceOptions or exportOptions.
//   - Add the flag to the function that defines the flags of its section.
//   - Use the field in newReplica.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package server
