// Package budget bounds the memory that linked clusters may make the gateway take. A
// [Pool] is for all of them together, a [Budget] for one, and a [Request] for one answer
// while it is read and decoded.
//
//	pool := budget.NewPool(budget.Limits{Cluster: 64 << 20, All: 128 << 20})
//	b := pool.Add()
//	defer b.Close()
//	ctx, request := b.Begin(ctx, "a list of pods", nil)
//	defer request.End()
//	list, err := client.List(ctx, options) // what reads the body calls budget.From(ctx).Took
//
// What callers may rely on:
//
//   - All figures are estimates, in bytes. What is kept of an object is estimated by its
//     owner ([Budget.Keep]); what an answer takes while it is decoded is estimated as
//     [Factor] times its decompressed size, as its bytes come, and once all are there as
//     [Beyond] that, by what its objects will take ([Request.Charge]).
//   - Of a cluster never more than Limits.Cluster is kept, and it never has more than a
//     quarter more than that: so one that has become small can be read. All together never have more than
//     Limits.All, or half more if clusters come while others have all of that. Half of
//     Limits.All is divided into equal parts, one for each Budget: a cluster gets its
//     part, whatever the others take. The other half is for those that need more, first
//     come, first served; a quarter of it is left for what is being read.
//   - What would be too much is refused by an [Error], which has how much, and of what.
//     Nothing waits for memory. Only the decoding of whole lists waits, for its turn: two
//     lists at a time in all linked clusters, once all bytes of them are there, so that no
//     cluster can hold up another by being slow.
//   - A nil *Pool has nil Budgets, and a nil *Budget refuses nothing: so it is for the
//     gateway's own cluster.
//
// Everything is safe for concurrent use. The package starts no goroutine and does no IO.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package budget
