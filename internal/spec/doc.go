// Package spec is the reference implementation of the rules that users rely on. Only tests use it.
// The simulator checks the behavior of whole replicas against this package. Unit tests compare the
// results of this package with the results of individual functions in packages such as federation,
// clusterstore and local/exports/plan. This package is as simple as possible, computes every result
// from scratch, and does not share code with Isthmus.
//
// The first group of functions computes endpoints, members and settings from the Kubernetes objects
// of clusters. [Namespace.Backends] computes the endpoints of a Service from EndpointSlices, Pods,
// ReplicaSets, Servers and ExternalWorkloads. If clients reach a cluster only through Linkerd
// gateways, [Route.Through] replaces the endpoints of a Service with the addresses of the gateways.
// [Define] parses the members of a federated or mirror Service, and [LinkSettings.With] parses the
// annotations of a link Secret.
//
// The second group of functions applies the rules in docs/preference.md to compute which endpoints
// of a service a client receives. The rules cover tiers, min-ready, failback, cordons and Linkerd
// gateways.
//
//	st := service.State()                // a Service at one instant
//	n := st.Needed()                     // number of tiers that clients need
//	list := spec.Sent(instants, now)     // endpoints that clients get at now
//
// [Sent] needs the states of a service at all earlier instants, because clients gradually drop the
// tiers that they no longer need. [Preference.With] parses the annotations of a Service.
//
// The third group of functions computes which Services and ServiceImports Isthmus writes for
// exports, and which clusters contribute to each object. The rules come from docs/exports.md and
// docs/mcs.md.
//
//	written := spec.WrittenFor(exporters)
//
// [WrittenFor] assumes that all clusters are readable, and that the names of written objects are
// not already in use. The contents of objects, such as ports, labels and types, are left to the
// tests of package local/exports/plan.
package spec
