// Package pace limits the rate of work, and shares workers fairly among tenants. A tenant is
// usually a namespace, because users with write access to a namespace can cause any amount of work.
//
//	d := pace.NewDirty[federation.ServiceID]()
//	go d.Run(ctx, func(id federation.ServiceID, at time.Time) { … })
//	d.Add(id.Namespace, id, time.Now())
//
// A [Dirty] is a set of keys that workers handle, one tenant after the other. A key that is added
// several times before its turn is handled only once. A [Signal] reports changes, at most once per
// second. [Sleep] pauses, but returns early if its context is done.
//
// Callers may rely on the following:
//
//   - The keys of a tenant are handled in the order in which they were added.
//   - Tenants with queued keys take turns, with one key per turn. A tenant waits for at most one
//     key of each other tenant, however many keys the other tenants have queued.
//   - At most one key of a tenant is handled at a time.
//   - Tenants without queued keys do not use memory.
package pace
