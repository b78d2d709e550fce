// Package budget bounds the memory that linked clusters may make the gateway take. A
// [Pool] is for all of them together, a [Budget] for one.
//
//	pool := budget.NewPool(budget.Limits{Cluster: 64 << 20, All: 128 << 20})
//	b := pool.Add()
//	defer b.Close()
//	err := b.Keep(size, size, "what is kept of pods")
//
// What callers may rely on:
//
//   - All figures are bytes, as clusterstore/follow counts what it keeps.
//   - Of a cluster never more than Limits.Cluster is kept. All together never have more than
//     Limits.All, or half more if clusters come while others have all of that. Half of
//     Limits.All is divided into equal parts, one for each Budget: a cluster gets its
//     part, whatever the others take. The other half is for those that need more, first
//     come, first served; one cluster gets half of it at most.
//   - What would be too much is refused by an error ([ErrOver]), which has how much, and of what.
//     Nothing waits for memory, and what is kept is never taken away.
//   - A nil *Pool has nil Budgets, and a nil *Budget refuses nothing: so it is for the
//     gateway's own cluster.
//
// Everything is safe for concurrent use. The package starts no goroutine and does no IO.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package budget
