// Package faults tests Isthmus while everything around it fails: API servers, the connections to
// them, link Secrets, and proxies. Some tests use simulated API servers for responses that real
// ones never send.
//
// TestFaults plays faults. Each fault has its own stage, which consists of a cluster name with a
// link over a disturbed connection, a federated Service, a mirror of the faulty cluster's Service,
// and subscribed proxies. The federated Service joins three clusters: the faulty one, the local one
// and a healthy one. Endpoints change continuously in all three clusters before, during and after
// the fault. Each test checks that
//
//   - changes in the other clusters reach the proxies within [patience];
//   - no proxy ever loses an endpoint that always exists;
//   - a proxy that subscribes during the fault receives all known endpoints within 3 s, the limit
//     of real proxies;
//   - /debug/clusters and the metrics show the true state, and the replica stays ready;
//   - after the fault, Isthmus watches the cluster again within 10 s, and every proxy has exactly
//     the current endpoints.
//
// With -long, the tests use the documented time limits. Without it, the limits are three times as
// long, because other tests run in parallel, and the limit of 3 s is not checked.
//
// By default, every fault lasts only until it is detected. With -long, the faults last longer and
// the crowds of proxies are larger. The faults are the same. TestOwnCluster plays three faults of
// the local cluster.
//
// ARCHITECTURE.md in the root of the repository describes all packages.
package faults
