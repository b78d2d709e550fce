// Package pace waits within a context, and lets tenants take turns at a worker, so that none holds up the others. A
// tenant is usually a namespace: whoever may write into the namespace decides how much work there is.
//
//	d := pace.NewDirty[federation.ServiceID]()
//	go d.Run(ctx, func(id federation.ServiceID, at time.Time) { … })
//	d.Add(id.Namespace, id, time.Now())
//
// A [Dirty] is a set of keys that workers handle, with the tenants in turn. A key that is added several times before
// its turn is handled once. A [Signal] passes on changes, at most one a second.
//
// What callers may rely on:
//
//   - Within a tenant, keys are in the order in which they were added.
//   - Tenants with work take turns, one key each. A tenant with little work waits for at most one key of each other
//     tenant, however many keys these have queued. At most one key of a tenant is handled at a time.
//   - A tenant without work takes no memory.
package pace
