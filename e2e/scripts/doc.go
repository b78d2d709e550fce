// Package scripts tests the repository's shell scripts without running them. The scripts parse in
// the shells that they name, pass shellcheck, and call isthmus by flags that it has, and the
// configs of manifests/k3d fit together. The package also tests what the Makefile prints before a
// slow build, and the GitHub workflows.
package scripts
