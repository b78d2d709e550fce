// Package server implements the command "isthmus gateway". The package defines the command's flags,
// builds the parts of a replica, and starts and stops them. The package also provides the metrics,
// the log and the traces of the replica.
//
//	program := cli.Program{Groups: []cli.Group{{Title: "Serve", Commands: []cli.Command{server.Command()}}}}
//
// To understand the package, start with run in run.go. run checks the flags, calls newReplica to
// build the parts, and calls replica.run to start and stop the parts.
//
// Callers may rely on the following:
//
//   - The command accepts all flags of Linkerd's destination controller, with one dash or two. The
//     arguments that a Linkerd installation passes to the destination controller also work with
//     Isthmus, because "isthmus destination" is an alias for "isthmus gateway".
//   - The replica does not listen on its gRPC address until it is ready.
//   - The replica opens the port of the admin server before it starts any of its parts. The admin
//     server is one of the last parts of the replica to stop.
//   - Isthmus adapts GOGC to the memory in use, unless GOGC is set in the environment.
//   - If the trace collector is unusable, Isthmus logs a warning and continues without traces.
//   - After a SIGTERM, the replica moves its proxies to other replicas before it stops serving. A
//     second signal ends the process immediately.
//   - At the end of a shutdown, the replica spends at most half a second sending the remaining
//     trace spans.
//
// The log has the following properties:
//
//   - Neither a client nor a broken cluster can flood the log. Each logger limits lines with the
//     same message to a burst of logBurst lines, followed by one line per second. When a logger has
//     dropped lines, the next line includes their number in the field "dropped".
//   - Debug lines are never dropped, because the user requests them with --log-level.
//   - Every logger that zap's With method returns has its own rate limits, so that no logger can
//     suppress the lines of another logger. Each library uses a separate logger, created by
//     withOwnLimit. A value of type perName holds a separate logger for each cluster or each
//     namespace.
//   - Rate limiting uses a bounded amount of memory, even if every message is different.
//   - The log is not buffered. A call that logs a line does not return until the whole line has
//     been written.
//   - Lines from client-go have the logger name "client-go". At the debug level, client-go logs
//     the method, URL and status of each request. At the trace level, client-go also logs request
//     headers, and masks credentials in them.
//   - Response headers are never logged, because they may contain a token. Request and response
//     bodies are never logged, because they may contain link Secrets.
//
// Each part runs in its own goroutine. The parts are the local cluster, the linked clusters, the
// writers, the admin server, traces and the gRPC server. If a part fails, the replica stops all
// other parts, and the process exits with the error of the failed part.
//
// To add a flag:
//
//   - Add a field to options, preferenceOptions or exportOptions.
//   - Add the flag to the function that defines the flags of its section.
//   - Read the field in newReplica.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package server
