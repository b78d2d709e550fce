// Package fleet stands in for many Kubernetes clusters at once, for measuring how costs grow.
//
// Fifty real API servers are too much for one machine. What a gateway asks of an API server is little: it lists and
// watches. So one HTTP server in this process answers for all clusters, each under a path of its own, with the encodings
// of a real one. Nothing can be written through it: what there is, [Config] says, and [Fleet.Flip] changes. Resources
// that a gateway can do without are answered with 404, as where their definitions are not installed.
package fleet
