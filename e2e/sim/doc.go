// Package sim tests an Isthmus process with simulated clusters, links and clients. They change and
// fail in an order derived from a seed. The package checks what Isthmus sends to the clients and what
// it writes to the local cluster.
//
// A run consists of rounds. A round makes a number of changes, called steps, and then checks
// everything while nothing changes. The seed and the number of the round start the random generator
// that chooses the steps. Steps choose among objects that only steps change, so a seed always yields
// the same steps in the same order. The timing differs from run to run.
//
// The expected result:
//
//   - The oracle (oracle.go, choice.go) passes the objects of all clusters to package spec, the
//     reference for all rules. Package spec joins slices with Pods, replaces Pods by Linkerd
//     gateways, and chooses the endpoints for the clients of a zone. The unit tests of clusterstore,
//     local and federation use the same reference. The oracle uses neither events nor code of
//     Isthmus.
//   - The oracle computes the state after every fail-back and every cordon is complete. A round waits
//     until then.
//
// The checks of endpoints:
//
//   - After every message, a client has at least as many endpoints as were available without
//     interruption, in any tier, up to min-ready. So the set never becomes empty while an endpoint is
//     available, and Isthmus removes an endpoint only after it has sent the replacement.
//   - An address that stays in the first tier is never removed.
//   - An address counts as available without interruption if one Pod of one cluster offers it after
//     every single write. Two watches may deliver changes of different kinds in either order, so
//     Isthmus cannot detect more.
//   - An unreachable cluster is not compared with the oracle. Its endpoints that stay available must
//     not be removed, and all other clusters are checked. If its state decides which tiers are in
//     use, clients may hold any of them. A cordon of an unreachable cluster takes effect, and a
//     cluster that refuses connections counts as lost.
//   - A cluster on another network is represented by its Linkerd gateways, if a Pod behind them is
//     ready. Until Isthmus has probed the gateways, they count as a last resort. A round waits for
//     the probes.
//   - A cluster with at least one Linkerd gateway stays reachable while it changes its network, and
//     while its gateways start, stop, move and fail. As long as one of its Pods remains, clients
//     always have an endpoint.
//   - After some rounds, a linked cluster becomes unreachable. Isthmus stores a copy of the cluster,
//     and is then killed and restarted (outage.go). No client loses an endpoint of that cluster, and
//     the live cluster replaces the copy later.
//
// The checks of exports (exporting.go, imports.go):
//
//   - Isthmus writes Services and ServiceImports for what clusters export. Users and hostile clusters
//     have objects of the same names, and users sometimes write between a read and a write of
//     Isthmus.
//   - No write of Isthmus changes or deletes an object without its mark.
//   - At the end of a round, the Services and ServiceImports are those that package spec computes
//     (expected.go), and the plan on the page of Isthmus contains no changes. Objects for unreachable
//     clusters and clusters with a broken link are not checked.
//
// Time limits depend on the speed of the machine. A late first message is only counted in a round
// during which the simulator was paused for long. In other rounds it is an error.
//
// The API servers are those of package apisim, behind fault proxies. Four of five clients subscribe
// to endpoints (Get), the others to a profile by the name of the Service (GetProfile).
//
// ARCHITECTURE.md, at the root of the repository, shows how the packages of Isthmus work together.
package sim
