// Package links implements the commands that write links. "isthmus link" and "isthmus unlink"
// create and delete link Secrets, and the accounts and permissions in the linked clusters. "isthmus
// cordon" and "isthmus uncordon" take a linked cluster out of service and return it to service.
//
// The commands work with two clusters from the user's kubeconfig (cluster.go): the local cluster,
// in which Isthmus runs, and the linked cluster.
//
//   - "isthmus link" (link.go, linking.go) reads both clusters and rejects invalid links. In the
//     linked cluster, the command creates the account with its permissions (access.go) and a token
//     (token.go). Next, the command tests the token, writes the link Secret (secret.go), waits
//     until all replicas use the new token (links.go), and deletes the older tokens.
//   - "isthmus unlink" (unlink.go) first deletes the link Secret, and then, with --revoke, the
//     objects that "isthmus link" created in the linked cluster. In the linked cluster, the command
//     deletes only objects that have the label app.kubernetes.io/managed-by=isthmus-link and that
//     no other link uses.
//   - "isthmus cordon" (cordon.go) asks all replicas which endpoints each service would keep during
//     the cordon, and merges the responses (impact.go).
//
// Users may rely on the following:
//
//   - If a command fails, it deletes the token that it created, unless the link Secret might
//     already contain the token. The command does not write a link whose token the cluster rejects.
//     To complete a failed command, users run it again. If some replicas do not start using a new
//     token but can still read the linked cluster with the previous token, "isthmus link" restores
//     the previous link.
//   - Package guard limits what the clients accept from the clusters. YAML from a cluster is parsed
//     but not decoded, because aliases and keys in hostile YAML can make decoding expensive.
//   - Before a link Secret is written, it is validated with the code that Isthmus uses to read
//     links.
//   - No write overwrites a concurrent change. A token is deleted only after the replicas have
//     started to use its successor.
//   - With --dry-run, a command runs the same code, but only prints the steps that it would take.
//   - A token is printed only as part of the Secret that "isthmus link" prints without --apply.
//     Text from servers is printed without control characters.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package links
