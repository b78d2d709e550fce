// Package federation merges what several clusters offer of a service into what
// one kind of client sees of it.
//
// A [Table] joins definitions (a service and its members) with clusters (each a
// [Source]) and publishes, for every watched [Key], a [Set]: immutable, sorted
// by address, one endpoint per address. Whoever holds two sets can [Diff] them.
//
// What callers may rely on:
//
//   - Inputs are idempotent and free of order. Define, Link, Unlink and Changed
//     may come in any sequence; the published sets are a function of the newest
//     definitions and of what the sources say when asked.
//   - Keys are pushed, state is pulled: Changed carries no data, the table asks
//     the source again. Nothing is asked for a service that nobody watches.
//   - The table starts no goroutines. When a method returns, what follows from
//     it has been published.
//   - Everything published is never written again and may be shared freely.
//     Endpoints that did not change keep their pointer from set to set.
//
// Decisions:
//
//   - A plain, a remote-discovery and a federated service are one case: a list
//     of one or more members.
//   - What a member offers comes as slices whose pointers stay while they are
//     unchanged. A change is found by comparing slice pointers, and only the
//     addresses of changed slices are settled again; the rest of the merged list
//     is copied as it is. So the work follows the changed slice, not the set; what
//     is left of the set's size is one array of pointers, copied and compared.
//   - Which addresses more than one slice offers is remembered: for all others
//     nobody has to be asked but the slice that changed.
//   - An address that several members (or several slices of one) offer goes to
//     the first in definition order, then slice order. The others stay on
//     offer, and take over when the winner leaves.
//   - What a client sees is chosen by one pure function (choose). Where nothing
//     has to be left out, every kind of client shares the merged list itself.
//   - A set says why it is empty (Reason), so that a server can tell "empty"
//     from "unknown" and from "can never work" without asking anybody else.
//
// The package imports the standard library only and knows neither Kubernetes
// nor gRPC.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package federation
