// Package links has the verbs that write links: "isthmus link" and "isthmus unlink" make
// and take away link Secrets, and what linked clusters grant for them; "isthmus cordon"
// and "isthmus uncordon" switch a link's cluster off and on.
//
// What the verbs work with are two clusters of the user's kubeconfig (clusters.go): here,
// which the gateway runs in, and there, which is linked.
//
//   - link (link.go, linking.go): reads both clusters and refuses what can't be
//     (conflicts.go), makes the account and its rights there (access.go) and a token
//     (token.go), tries them (try.go), writes the link Secret here (secret.go), waits for
//     the gateway (gateway.go), and only then deletes the tokens before.
//   - unlink (unlink.go, revoke.go) deletes in the opposite order, and there only what has
//     the label of link, and belongs to no other link.
//   - cordon (cordon.go) asks all gateways what it leaves, and joins their answers (impact.go).
//
// Guarantees:
//
//   - A verb that fails leaves no token that is not used, nor a link that its cluster refuses:
//     running it again completes it. A rotation that the gateway does not follow is undone.
//   - Clusters are asked by guarded clients (clusterstore/guard), and YAML of theirs is not
//     decoded, so that neither aliases nor equal keys grow.
//   - The gateway's own reader checks a link Secret before it is written.
//   - No write loses what somebody else has written meanwhile, and no token ends before the
//     gateway reads the cluster with the one that replaces it.
//   - With --dry-run the same code runs, and names its steps instead of taking them.
//   - A token is printed in the Secret that the user has asked for, and nowhere else. What
//     servers send is printed without control characters.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package links
