// Package prometheus runs a Prometheus server for tests, and its promtool: they
// are tools of the module e2e/tools, built like the repository's own commands.
//
// A server scrapes what its Config names, every three seconds, and forgets all with its
// folder. On Linux it never outlives its starter.
package prometheus
