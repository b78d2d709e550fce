// Package pace waits within a context, and lets tenants take turns at a worker, so that none holds up the others. A
// tenant is usually a namespace: whoever may write into the namespace decides how much work there is.
//
//	d := pace.NewDirty[federation.ServiceID]()
//	go d.Run(ctx, func(id federation.ServiceID, at time.Time) { … })
//	d.Add(id.Namespace, id, time.Now())
//
// A [Queue] is the order. A [Dirty] is a set of keys that workers handle in that order, in
// which bursts collapse. A [Signal] passes on changes, at most one a second.
//
// What callers may rely on:
//
//   - Within a tenant, keys are in the order in which they were added.
//   - Tenants with work take turns, one key each: whoever has had a turn waits until all others
//     with work have had one. So a tenant with little work waits for one key of each other,
//     however many these have queued. How long a key takes does not count: of a tenant whose keys
//     take long, no more than the given number are under way at the same time.
//   - A tenant without work takes no memory.
package pace
