// Package e2e holds the tests of the gateway as a whole: the isthmus binary as a process, API servers, and a model of the
// proxy on the other side. Of the root module this module imports only internal/adminapi, internal/apisim,
// internal/exportspec and internal/tierspec. The root module imports nothing of this one.
//
// What is tested where:
//
//   - testdata/cases: what a proxy must be sent, as scripts that package cases runs (TestConformance).
//   - This package besides: manifests and installs, recipes of the README, metrics and dashboards, sets and profiles that are large, EndpointSlices for
//     ExternalWorkloads, a gateway that ends while proxies are connected.
//   - faults: clusters, links and proxies that fail.
//   - scripts: the repository's shell scripts.
//   - sim: many clusters that change at random, by a seed.
//   - bench: what a gateway costs.
//   - cmd/nodes: Isthmus on real nodes. It is a command that people run, not a test.
//   - cmd/image: the container image, and the files of a release.
//
// The folder tools is a module of its own. It has the tools that tests and cmd/nodes run, such as
// Prometheus, Helm and kubelet.
//
// What tests are made of:
//
//   - cluster and gateway run a real API server and the gateway, each as a process; prometheus does so with Prometheus. pod runs
//     the gateway as the container of a Pod would.
//   - apisim is a simulated API server, of which hundreds fit into one process. A test compares it with a real one.
//   - proxy is the model of a proxy, faultproxy a network that fails, intercept what stands in front of an API server, probed a
//     Linkerd gateway as far as its probe.
//   - kubelet is a node that forwards ports; reach has the tests of how people get at gateways.
//   - object builds Kubernetes objects, kube writes them to real API servers, kubectl does what users do there,
//     admin reads the gateway's metrics and debug pages, poll waits.
//
// ARCHITECTURE.md, at the root of the repository, shows how the packages of the gateway work together.
package e2e
