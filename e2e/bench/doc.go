// Package bench measures what a Destination server costs, side by side with the floor: a bare gRPC
// server that sends the same bytes (see package floor).
//
// A [Trial] is a name, clusters, what is done to a server, and the figures that come of it, with their
// targets. Each trial guards a claim of the documentation, and TestClaims checks that the claim names the
// command that makes the trial.
//
// A trial is done to the gateway and to the floor in turn, several times, each time to a fresh process. The
// medians count. The API servers are simulated (package fleet), in this process, which is the client too.
//
// What is done is written as a test is: a function of a run, whose helpers end it when something
// fails (check). Starting and ending servers, repetitions, timeouts, the files and the tables are
// the same for all trials: [Lab.Run] and [Report].
//
// The decisions behind it:
//
//   - Processor time is the process's own clock, user and system. It is read a second after the
//     work is done, so that what a garbage collector does later is in it.
//   - Memory is resident memory (RSS) beyond what the process had before the streams, once that had settled.
//   - Delays count from the write, or for the floor from the order to step, until the client
//     has the whole message.
//   - A run begins once the processors are idle, or after 20 s: what the one before leaves to
//     collect or to compact would count.
//   - The floor sends what the gateway's streams were sent in the trial before, so that sizes can't differ.
//
// ARCHITECTURE.md, at the root of the repository, shows how the packages of the gateway work together.
package bench
