// Package cases runs cases: scripts that write objects to real API servers, subscribe to a gateway as a proxy does,
// and check what must come of it. What a case looks like, and every command, is described in e2e/testdata/README.md.
//
// Parse reads a case and reports all its mistakes with file and line before anything is run. A
// Runner runs cases one after the other against an Environment: three clusters and a gateway.
// Afterwards it leaves the environment as it found it, whatever the case did and however it ended,
// but for a gateway with the case's flags, which is halted until a case needs it. Cases that are
// not Alone may run at the same time, each by a Runner.
//
// Decisions:
//
//   - A state that must hold may be reached more than once: it has to be true for 300 ms on end at some time within the
//     timeout, so that changes which were under way when the command began do no harm. A message in between that the
//     runner was too slow to see begins the 300 ms anew.
//   - A stream that received something a server must not send (proxy.Fault) fails its case,
//     whatever the script expects.
//   - Objects of a case are deleted one by one. Its namespaces stay, in clusters that end with the
//     run: to delete one takes an API server as long as the rest of a case.
//
// ARCHITECTURE.md, at the root of the repository, shows how the packages of the gateway work together.
package cases
