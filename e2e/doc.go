// Package e2e holds the tests of the gateway as a whole: the isthmus binary as a process, real API servers, and a model of
// the proxy on the other side. Nothing here imports the gateway's module, and it imports nothing of this one.
package e2e
