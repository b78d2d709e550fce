// Package logging makes the gateway's logger: lines for people or as JSON, of
// which none is repeated without end.
//
//	level, ok := logging.ParseLevel("info")
//	log := logging.New(level, "json", os.Stderr)
//	err := logging.BridgeKlog(log, level) // client-go logs there too
//
// A line as JSON, after 41 with the same message were dropped:
//
//	{"level":"warn","ts":"2026-01-02T15:04:05.123456789Z","msg":"…","cluster":"east","dropped":41}
//
// Guarantees:
//
//   - Of lines with one message a logger writes [Burst] at once and then one a
//     second; the next one that is written has the field "dropped" with the number
//     of those that were not. So neither a client nor a broken cluster floods the
//     log. Debug lines are not limited: --log-level has asked for them.
//   - Every logger that With returns, and so every cluster's, has a limit of its
//     own: none silences another. [WithOwnLimit] gives one to a library, and
//     [PerName] keeps one for each cluster or namespace.
//   - The memory for that is bounded, whatever the messages are.
//   - A line is written in one piece, before the call that logs it returns: nothing
//     is buffered.
//   - client-go's lines appear under the name "client-go", as many as the level asks
//     for: debug adds its requests (method, URL, status), and trace their headers, in
//     which client-go masks credentials. The headers of answers are never logged,
//     since a server may send a token back, nor the bodies of requests and answers:
//     link Secrets are among them.
//
// Loggers, and [PerName], are safe for concurrent use. klog has one logger for
// the whole process: call [BridgeKlog] once, before the first client is made.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package logging
