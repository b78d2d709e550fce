// Package e2e holds the tests of the gateway as a whole: the isthmus binary as a process, API
// servers, and a model of the proxy on the other side. Of the root module this module imports only
// internal/adminapi, internal/apisim and internal/spec. The root module
// imports nothing of this one.
//
// What is tested where:
//
//   - testdata/cases: what a proxy must be sent, as scripts that package cases runs (TestConformance).
//   - This package besides: manifests and installs, recipes of the README, metrics and dashboards,
//     large sets and profiles, EndpointSlices for ExternalWorkloads, handing over from one replica
//     to another, the repository's shell scripts, Makefile and workflows.
//   - faults: clusters, links and proxies that fail.
//   - reach: how commands reach replicas by a kubeconfig.
//   - page: the page for people, in Chromium.
//   - sim: many clusters that change at random, by a seed. Its tests also compare internal/apisim
//     with a real API server.
//   - bench: what Isthmus costs.
//   - cmd/nodes: Isthmus on real nodes. It is a command that people run, not a test.
//   - cmd/image: the container image, and the files of a release.
//
// What tests are made of:
//
//   - harness runs processes: clusters, replicas of Isthmus, proxies that spoil connections. Its package kube builds
//     Kubernetes objects and writes them to API servers.
//   - proxy is the model of a proxy.
//   - shop is an application in several clusters, for the demo and tests.
//   - internal/apisim, in the root module, is a simulated API server, of which hundreds fit into one process.
//
// The folder tools is a module of its own. It has the tools that tests and cmd/nodes run, such as
// Prometheus, Helm and kubelet.
//
// ARCHITECTURE.md, at the root of the repository, shows how the packages of the gateway work together.
package e2e
