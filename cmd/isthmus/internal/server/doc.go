// Package server is the command "isthmus gateway": its flags, how its parts are put together, started and stopped, its
// metrics, its log and its traces.
//
//	program := cli.Program{Groups: []cli.Group{{Title: "Serve", Commands: []cli.Command{server.Command()}}}}
//
// options.go has the command and its flags. run.go reads from top to bottom: run checks the flags, newReplica makes
// each part from the parts that it needs, and replica.run starts and stops them.
//
// Guarantees:
//
//   - The flags of Linkerd's destination controller are all accepted under
//     their names, with one dash or two, so that a Linkerd install's arguments
//     work unchanged ("destination" is an alias of "gateway").
//   - The gRPC address is listened on once the replica is ready, and not before.
//   - The admin address is open from the start and closed last.
//   - GOGC follows what is in use, unless the environment sets it.
//   - A trace collector that can't be used is logged, no more.
//   - After SIGTERM proxies are handed over to other replicas before serving ends;
//     a second signal ends the process at once. The last spans of traces have half a
//     second after everything else.
//
// Of the log (logging.go):
//
//   - Of lines with one message a logger writes logBurst at once and then one a
//     second; the next one that is written has the field "dropped" with the number
//     of those that were not. So neither a client nor a broken cluster floods the
//     log. Debug lines are not limited: --log-level has asked for them.
//   - Every logger that With returns, and so every cluster's, has a limit of its
//     own: none silences another. withOwnLimit gives one to a library, and
//     perName keeps one for each cluster or namespace.
//   - The memory for that is bounded, whatever the messages are.
//   - A line is written in one piece, before the call that logs it returns: nothing
//     is buffered.
//   - client-go's lines appear under the name "client-go", as many as the level asks
//     for: debug adds its requests (method, URL, status), and trace their headers, in
//     which client-go masks credentials. The headers of answers are never logged,
//     since a server may send a token back, nor the bodies of requests and answers:
//     link Secrets are among them.
//
// Every part has a goroutine of its own: the local cluster, the linked clusters, the writers, the admin server, traces
// and the gRPC server. If one fails, the others are ended and the process fails with it.
//
// To add a flag: a field of options (options.go, options_preference.go or options_exports.go), its line in the flags of
// that section, and what newReplica does with it.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package server
