// Package crd has Go types for the custom resources of Linkerd that the gateway
// reads: ServiceProfile (v1alpha2), Server (v1beta3), ExternalWorkload (v1beta1) and
// Link (v1alpha1 to v1alpha3), with those fields that it reads.
//
//	var s crd.Server
//	err := json.Unmarshal(data, &s)
//	if s.Invalid != "" {
//		// The spec has the wrong form. Others in the same list can be used.
//	}
//
// What callers may rely on:
//
//   - One malformed object does not make a whole list unreadable: reading an object
//     from JSON does not fail because its spec or status has the wrong form. That part
//     has its zero value then; for a spec, Invalid has the reason.
//   - A spec is read as a whole or not at all: half of a policy may mean the opposite
//     of the whole.
//   - Metadata that has the wrong form is an error. API servers write and check
//     metadata themselves, whatever a resource's schema allows; a server that doesn't
//     makes this resource of its own cluster unreadable, and nothing else.
//
// The types are plain data: an object may be read concurrently as long as it is not
// written. The package starts no goroutine.
//
// They are not imported from Linkerd, whose Go module would bring the dependencies of
// its control plane for a few small structs.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package decode
