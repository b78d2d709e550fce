// Package pace limits the rate of work, and shares workers fairly among tenants. A tenant is
// usually a namespace. If workers were not shared fairly, a user with write access to one namespace
// could occupy all workers.
//
//	d := pace.NewDirty[federation.ServiceID]()
//	go d.Run(ctx, func(id federation.ServiceID, at time.Time) { … })
//	d.Add(id.Namespace, id, time.Now())
//
// Each key in a [Dirty] belongs to a tenant, and workers handle one key of each tenant in turn. A
// key that is added several times before it is handled is handled only once. A [Signal] reports
// changes, at most once per second. [Sleep] pauses, but returns early if its context is done.
//
// Callers may rely on the following:
//
//   - The keys of a tenant are handled in the order in which they were added.
//   - Tenants with queued keys take turns, with one key per turn. A tenant waits for at most one
//     key from each of the other tenants, however many keys those tenants have queued.
//   - At most one key of a tenant is handled at a time.
//   - Tenants without queued keys do not use memory.
package pace
