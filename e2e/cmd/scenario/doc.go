// Command scenario runs case files against three clusters and an Isthmus replica, and prints the
// results.
//
// It is the command-line form of the test in e2e. Use it to develop a case, to repeat a case, or to
// test a replica that runs elsewhere, for example in a debugger. The exit code is 1 if a case
// fails, and 2 for mistakes in the arguments or in case files.
package main
