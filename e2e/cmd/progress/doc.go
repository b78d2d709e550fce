// Command progress prints how far long builds and tests are, for the Makefile: a line now and then, and nothing where all is
// quick. It uses Go's standard library alone, so that it is there before anything else is compiled.
package main
