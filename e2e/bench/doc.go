// Package bench measures the cost of Isthmus and compares it with the floor, a minimal gRPC server
// that sends the same bytes (ServeFloor).
//
// A [Trial] consists of a name, clusters, a workload for a server, and the resulting figures with
// their targets. Each trial guards a claim in the documentation. TestClaims checks that the text of
// each claim contains the command that runs the trial.
//
// Isthmus and the floor run a trial in turn, several times, with a new process for each run. A
// figure is the median of all runs. The API servers are simulated (package fleet) and run in the
// bench process, which is also the client.
//
// A workload is a function that is written like a test. The helper functions of a run end the run
// on failure (check). [Lab.Run] and [Report] start and stop servers, repeat trials, limit their
// time, and write files and tables.
//
// The measurements follow these rules:
//
//   - CPU time is the user and system time of the process. The time is read a second after the work
//     is done, so that it includes garbage collection.
//   - Memory is the resident memory (RSS) in addition to the settled memory of the process before
//     the streams.
//   - A delay starts when the API server has accepted the write of an object, or when the floor has
//     accepted the step command. It ends when the client has received the whole message.
//   - A run begins when the processors are idle, or after 20 s at the latest, so that it does not
//     include work left over from the previous run.
//   - The floor sends the messages that Isthmus sent in the same trial, so that the sizes are
//     equal.
//
// ARCHITECTURE.md in the root of the repository describes all packages.
package bench
