// Package sim runs a gateway process among clusters, links and clients that change and fail as a
// seed decides, and checks what clients are sent: that no stream begins with what a proxy ignores,
// that no address that is offered all the time is ever taken away, and that in the end every client
// holds exactly what follows from the clusters' objects.
//
// A run is made of rounds: steps, one after the other, and then a check of everything while nothing
// changes. Steps choose by a generator that the seed and the round's number start, from objects
// that only steps have changed: so the same seed does the same things in the same order. When the
// gateway sees them, and in which state it is then, is up to the machine.
//
// What is compared with what:
//
//   - The oracle (oracle.go, choice.go) passes the objects of all clusters to package spec, which has
//     all rules: it joins slices with Pods, replaces Pods with gateways, and decides which endpoints
//     clients in a zone get. The unit tests of clusterstore, local and federation compare with the same
//     reference. The oracle knows nothing of events, nor of the gateway's code.
//   - The answer is for the time when nothing returns any more, nor is being taken out. A round waits
//     for that time.
//   - At every message clients have as many endpoints as have been there all the time, in whatever
//     tier, up to what has to be ready: so never none while there is one, and nothing goes before
//     what replaces it is there. What stays in the first tier is never taken away.
//   - An address counts as offered all the time if one cluster has offered it by one Pod after
//     every single change. Where two objects of different kinds change at once, one watch may be
//     ahead of the other, and no gateway can know.
//   - A cluster that is cut off is not checked, but others are, and what it offered before and goes
//     on to offer must stay. Where what it offers decides which tiers are in use, clients may hold
//     any of them. A cordon works on it all the same, and one that can't be reached is lost.
//   - A cluster on another network is its gateways, as far as there is something behind them. Which
//     of them answer the gateway finds out in time: until it has, they are no more than better than
//     nothing. A round waits for that too.
//   - What is behind a cluster that always has some gateway has a way there, whichever: while the
//     cluster goes to another network and back, and its gateways come, go, move and die, clients
//     are never left with none for as long as a Pod stays.
//   - After some rounds a linked cluster becomes unreachable, and the gateway is killed and started
//     again once it has stored a copy of the cluster (outage.go). No client loses an endpoint of
//     that cluster, and the live cluster replaces the copy later.
//   - The gateway writes Services and ServiceImports for what clusters export (exporting.go,
//     imports.go), while users and hostile clusters have others at the same names, and users
//     sometimes write between the gateway's read and its write. Each of its writes is checked: it
//     changes and deletes nothing without its mark. In the end there are those Services and
//     ServiceImports, of those clusters, that package spec computes from what clusters export
//     by then, whatever came before (expected.go), and the gateway's page has nothing to change,
//     which is about what is in them; but not where a cluster is cut off, or its link can't be
//     used.
//   - Limits of time apply when the machine is fast enough: a first message that is late counts
//     only in rounds in which the simulator itself was never paused for long, and is counted in
//     others.
//
// The API servers are those of package apisim, behind fault proxies. Most clients ask for endpoints
// (Get), one in five for a profile, by the Service's name.
//
// ARCHITECTURE.md, at the root of the repository, shows how the packages of the gateway work together.
package sim
