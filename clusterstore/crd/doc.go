// Package crd holds Go types for the custom resources of Linkerd that the
// gateway reads: ServiceProfile (v1alpha2), Server (v1beta3) and
// ExternalWorkload (v1beta1), as far as it reads them.
//
// What callers may rely on: reading an object from JSON never fails for what its
// writer has put into it. A spec or status that does not have the form that it
// should have is left at its zero value, and of a spec the object's Invalid says
// what is wrong.
//
// Decisions:
//
//   - Types of our own. Linkerd's Go module would bring its whole control plane's
//     dependencies for three small structs.
//   - A spec counts as a whole: half of a policy may say the opposite of all of it.
//   - Metadata is not read with such care. API servers write and check it
//     themselves, whatever a resource's schema allows, and one that doesn't only
//     spoils this resource of its own cluster.
//   - Deep copies are generated (make generate), and a test checks that they are
//     those of the types as they are.
//
// +k8s:deepcopy-gen=package
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package crd

//go:generate go tool deepcopy-gen --output-file zz_generated.deepcopy.go .
