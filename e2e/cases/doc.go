// Package cases runs cases. A case is a script that writes objects to real API servers, subscribes
// to Isthmus as a proxy does, and checks the results. The format of a case and all commands are
// described in e2e/testdata/README.md.
//
// Parse reads a case and reports every mistake with file and line before the case runs. A Runner
// runs cases one after the other in an Environment, which consists of three clusters and an Isthmus
// replica. After each case, the Runner restores the Environment, even if the case failed. A replica
// with flags from the case stays stopped until another case needs it. Cases that are not Alone can
// run in parallel, each with its own Runner.
//
// Some rules for all cases:
//
//   - An expected state must last for 300 ms at some time within the timeout, so that earlier
//     changes still in progress do no harm. If the runner misses a message, the 300 ms start again.
//   - A stream that receives an invalid message (proxy.Fault) fails its case, even if the script
//     does not check the stream.
//   - The objects of a case are deleted one by one. Its namespaces are left until the clusters end,
//     because the deletion of a namespace takes as long as the rest of a case.
//
// ARCHITECTURE.md in the root of the repository describes all packages.
package cases
