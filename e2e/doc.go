// Package e2e tests Isthmus as a whole: the isthmus binary as a process, with API servers and a
// model of the proxy. This module only imports internal/adminapi, internal/apisim and internal/spec
// from the root module. The root module does not import this module.
//
// The tests are in these places:
//
//   - testdata/cases contains scripts for the messages that a proxy must receive. Package cases
//     runs them in TestConformance.
//   - This package also tests manifests and installations, recipes in the README, metrics and
//     dashboards, large endpoint sets and profiles, EndpointSlices for ExternalWorkloads, the
//     handover between replicas, and the repository's shell scripts, Makefile and workflows.
//   - Package faults tests failing clusters, links and proxies.
//   - Package reach tests how commands reach replicas through a kubeconfig.
//   - Package page tests the admin page in Chromium.
//   - Package sim simulates many clusters that change at random, reproducibly by a seed. Its tests
//     also compare internal/apisim with a real API server.
//   - Package bench measures the cost of Isthmus.
//   - Command cmd/nodes runs Isthmus on real nodes. It is not part of the tests.
//   - Package cmd/image tests the container image and the files of a release.
//
// The tests use these packages:
//
//   - Package harness runs clusters, replicas of Isthmus, and proxies that disturb connections. Its
//     package kube builds Kubernetes objects and writes them to API servers.
//   - Package proxy models a proxy.
//   - Package shop is an application in several clusters, for the demo and for tests.
//   - Package internal/apisim, in the root module, simulates API servers, hundreds of which fit in
//     one process.
//
// The directory tools is a separate module with the tools that tests and cmd/nodes run, such as
// Prometheus, Helm and the kubelet.
//
// ARCHITECTURE.md in the root of the repository describes all packages.
package e2e
