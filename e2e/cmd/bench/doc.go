// Command bench measures the CPU time, memory and delays of Isthmus, and compares them with a
// minimal gRPC server that sends the same bytes. See package bench for the measurements.
//
// The exit code is 1 if a target is missed or a trial fails, and 2 for invalid arguments.
package main
