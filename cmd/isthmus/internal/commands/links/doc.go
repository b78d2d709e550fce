// Package links has the commands that write links: "isthmus link" and "isthmus unlink" make
// and take away link Secrets, and what linked clusters grant for them; "isthmus cordon"
// and "isthmus uncordon" switch a link's cluster off and on.
//
// The commands work with two clusters of the user's kubeconfig (cluster.go): the local cluster, in
// which Isthmus runs, and the linked cluster.
//
//   - link (link.go, linking.go): reads both clusters and refuses what can't be, makes the
//     account and its permissions in the linked cluster (access.go) and a token (token.go), tries
//     them and writes the link Secret (secret.go), waits for the replicas (links.go), and only
//     then deletes the tokens before.
//   - unlink (unlink.go) deletes in the opposite order, and in the linked cluster only what has
//     the label of link, and belongs to no other link.
//   - cordon (cordon.go) asks all replicas what it leaves, and joins their answers (impact.go).
//
// Guarantees:
//
//   - A command that fails leaves no token that is not used, nor a link that its cluster refuses:
//     running it again completes it. A rotation that a replica does not follow is undone.
//   - Clusters are asked by guarded clients (clusterstore/guard), and YAML of theirs is not
//     decoded, so that neither aliases nor equal keys grow.
//   - The code by which Isthmus reads a link Secret checks it before it is written.
//   - No write loses what somebody else has written meanwhile, and no token ends before the
//     replicas read the cluster with the one that replaces it.
//   - With --dry-run the same code runs, and names its steps instead of taking them.
//   - A token is printed in the Secret that the user has asked for, and nowhere else. What
//     servers send is printed without control characters.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package links
