// Package pace waits within a context, and lets tenants share workers fairly. A tenant is usually a
// namespace, because whoever may write to the namespace decides how much work there is.
//
//	d := pace.NewDirty[federation.ServiceID]()
//	go d.Run(ctx, func(id federation.ServiceID, at time.Time) { … })
//	d.Add(id.Namespace, id, time.Now())
//
// A [Dirty] is a set of keys that workers handle, one tenant after the other. A key that is added
// several times before its turn is handled once. A [Signal] passes on changes at most once per
// second.
//
// Callers may rely on the following:
//
//   - The keys of a tenant are handled in the order in which they were added.
//   - Tenants with work take turns, one key each. A tenant waits for at most one key of each other
//     tenant, however many keys the other tenants have queued.
//   - At most one key of a tenant is handled at a time.
//   - A tenant without work uses no memory.
package pace
