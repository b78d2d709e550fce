// Package audit checks, in the background, that what the gateway knows of watched services is
// what their clusters' APIs have. An [Auditor] takes the services in turn, once in an interval
// each, and has each member's cluster list what the service is made of and compare
// (clusterstore/cluster: Look). A difference that is still there [Settle] later, with neither
// side changed, is counted, logged, reported and healed: the resource is listed again.
//
//	a, err := audit.New(audit.Options{Interval: time.Hour, Services: table.WatchedServices, Cluster: followed, Log: log})
//	go a.Run(ctx)
//	page := a.Status()
//
// What callers may rely on:
//
//   - A service that is watched all the time is due once in every Interval, each at a time of
//     its own, so that the work is spread evenly.
//   - A cluster gets one request a second at most, whatever there is to do. If that is too
//     little, services are late, in the order in which they were due; that is logged, and in
//     the [Status].
//   - Clusters don't wait for each other. One that is not ready is skipped, which is a result.
//   - A difference that goes away by itself within Settle is not counted. One that changes
//     begins anew. One that changes all the time is given up, and is a result.
//   - A resource of a cluster is listed again once a minute at most, or once in a shorter
//     Interval. Its objects stay meanwhile.
//   - What a result has of a cluster is bounded, and fit to be shown.
//
// Run starts a goroutine for each cluster that there is something to do for, and waits for
// them. All methods are safe for concurrent use, and none calls a function of the Options
// under a lock.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package audit
