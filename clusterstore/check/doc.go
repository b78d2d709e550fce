// Package check finds out whether a gateway has what it needs: that API servers answer, what
// they permit, whether link Secrets are good and for how long, whether clocks, trust anchors
// and Pod networks fit together.
//
//	results := check.Run(ctx, check.Config{Namespace: "linkerd", Local: cfg, Links: store.Accesses()})
//
// The same checks run at two places. The gateway runs them for a page of its admin server:
// it alone reaches the linked clusters' API servers from its own network, with the links'
// credentials. Where there is no gateway yet, "isthmus check" runs them itself, and its
// answer is about its own network then. What users read (marks, order, summaries) is the
// verb's.
//
// What callers may rely on:
//
//   - Run asks only: it creates reviews of the own rights, and nothing that an API server
//     keeps. It ends within [Limit], or when its context does; what there was no time for is
//     Unchecked. It waits for all that it starts.
//   - Link Secrets are read, and clusters are reached, by the gateway's own code
//     (clusterstore, clusterstore/kube), with its refusals and limits.
//   - What one cluster answers takes a few megabytes at most, and changes no result of
//     another but those that compare the two.
//   - No result has credentials. Texts of clusters are printable and short. There are
//     [MaxOfOne] results at most of one check that are not OK.
//   - What may not be read is Unchecked, and its hint is how to permit it.
//
// A cluster that does not answer has one Failure; its other checks are Unchecked.
package check
