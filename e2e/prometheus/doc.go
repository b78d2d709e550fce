// Package prometheus runs a Prometheus server for tests, and its promtool: they are tools of the module e2e/tools, built
// like the repository's own commands.
//
// A [Server] scrapes the targets of its Config every three seconds, evaluates its rules, and answers queries. It loses all
// data with its folder. It never outlives its starter on Linux (see package program). Its methods may be called from
// several goroutines.
package prometheus
