// Package scripts tests the repository's shell scripts: that they parse everywhere and pass shellcheck, and that those of
// manifests/k3d do what they promise.
//
// The latter need docker, k3d, kubectl, linkerd and step. Here stand-ins have these names: the test's own binary, which
// keeps a small model of what there is - clusters, networks, images, routes, links - records each call, and refuses what it
// does not know. So the tests show what the scripts ask for, in which order, and what they do when it fails, hangs or is
// interrupted. They do not show that docker, k3d and the others do what the stand-ins do.
package scripts
