// Package sim lets a gateway process run amid clusters, links and clients that change and fail as a seed says, and checks
// what clients are told: that no stream begins with what a proxy ignores, that no address that is offered all the time is
// ever taken away, and that in the end every client holds exactly what the clusters' objects say.
//
// A run is made of rounds: steps, one after the other, and then a check of everything while nothing changes. Steps choose
// by a generator that the seed and the round's number start, from objects that only steps have changed: so the same seed
// does the same things in the same order. When the gateway gets to know of them, and what they meet there, is up to the
// machine.
//
// What is compared with what:
//
//   - The oracle (oracle.go) reads the objects of all clusters and computes what a client is to hold, from scratch. It knows
//     nothing of events, of what was before, nor of the gateway's code.
//   - An address counts as offered all the time if one cluster has offered it by one Pod after every single change. Where
//     two objects of different kinds change at once, one watch may be ahead of the other, and no gateway can tell.
//   - A cluster that is cut off is not checked, but others are, and what it offered before and goes on to offer must stay.
//   - Limits of time hold when the machine lets them: a first message that is late counts only in rounds in which the
//     simulator itself was never paused for long, and is counted in others.
//
// The API servers are those of package apisim, behind fault proxies. To let clients make other calls, give client a kind,
// and answer what its oracle says.
package sim
