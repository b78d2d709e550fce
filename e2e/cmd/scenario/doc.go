// Command scenario runs case files against three clusters and a gateway, and prints which pass.
//
// It is the runner of the test in the e2e folder with a command line: for writing cases, for the
// same case many times, and for a gateway that runs elsewhere, such as in a debugger. It exits with
// 1 when a case fails and with 2 for mistakes in its own arguments or in case files.
package main
