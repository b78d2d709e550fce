// Package faults makes everything around the gateway fail while proxies are connected to it: API
// servers, the connections to them, link Secrets, and the proxies themselves. Some tests have
// simulated API servers, that send what real ones can't be made to. There is nothing in it but
// tests.
//
// TestFaults plays faults. Each has a stage of its own: a cluster name that is linked for it, by a
// connection that can be spoiled, a federated Service over that cluster, the gateway's own and one
// that stays well, a mirror of the faulty cluster's share, and proxies that are subscribed to both.
// While the fault comes, lasts and goes, endpoints change all the time in all three clusters.
// Checked of every fault is that
//
//   - changes of the other clusters arrive within [patience], as ever;
//   - no endpoint that is there throughout is ever taken from a proxy;
//   - a proxy that subscribes meanwhile is sent all that is known within the 3 s that a proxy waits;
//   - /debug/clusters and the metrics show the true state, and the gateway stays ready;
//   - afterwards the cluster is followed again within 10 s, and every proxy has exactly what the clusters offer.
//
// The limits of time are those promised with -long, and three times as long without, since the
// short form runs beside other tests. That a first message comes within 3 s is checked with -long
// only.
//
// The suite is short by default: every fault once, and no longer than it takes to be seen. With
// -long the faults last, and the floods of proxies are larger. The faults are the same:
// TestOwnCluster, of the gateway's own cluster, has three.
//
// ARCHITECTURE.md, at the root of the repository, shows how the packages of the gateway work together.
package faults
