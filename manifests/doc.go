// Package manifests holds what a user applies: the rights that the gateway
// needs in its own cluster and in a linked one, and an example of a link.
// Nothing imports it; the end-to-end tests apply the files to real API servers
// and run the gateway with exactly these rights.
package manifests
