// Command bench measures what the gateway costs: processor time, memory and delays, next to those
// of a bare gRPC server that sends the same bytes. See package bench for what is measured and how.
//
// It exits with 1 when a target is missed or a trial fails, and with 2 for mistakes in its arguments.
package main
