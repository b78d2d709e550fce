package links

const linkIntro = `isthmus link makes a link to a cluster of your kubeconfig: there the ServiceAccount, its
rights to read (those of manifests/link/remote-access.yaml) and a token; and the link Secret
for the gateway's cluster, which it prints or, with --apply, writes. Run again it
rotates the token: streams do not notice.

Usage: isthmus link NAME --context CONTEXT [FLAGS]

NAME is what the cluster is called in this one: in annotations of Services, labels,
metrics and pages.`

const linkEnding = `What is there already stays: labels and annotations of the link, such as a cordon, and
what no flag changes. A token ends only once the gateway shows that it reads the cluster
with the new one. Of several replicas all that are ready must show it. If one goes on with
the token before, the link becomes what it was, and the new token ends; otherwise both
stay, and running this again completes it.

Refused: another Secret that links NAME; the gateway's own cluster; a cluster that is
linked under another name; rights or an account of that name that isthmus link has not
made and that differ.

Rights that you need. In the cluster to be linked: get and create namespaces,
serviceaccounts, clusterroles (also update) and clusterrolebindings; get, list, create
and delete secrets in the account's namespace; get the ConfigMap linkerd-config in the
namespace that -n names, or else in linkerd, unless you give both domains; and all that
the ClusterRole grants. With --duration also create serviceaccounts/token. In the
gateway's cluster: get namespace kube-system; get, list and, with --apply, create and
update secrets in the links' namespace; without --admin, list pods and create
pods/portforward there.

Standard output has the Secret or, with --apply, what was done. A token is printed only
in that Secret. Exit code 1 if something is refused or fails, with what to do.

Examples:
  isthmus link east --context east --apply
  isthmus link east --context east --dry-run --apply
  isthmus link east --context east --apply --server https://10.0.0.5:6443
  isthmus link east --context east --duration 720h --apply
  isthmus link east --context east --to-context west -o yaml > link-east.yaml`

const unlinkIntro = `isthmus unlink takes a link away: the gateway drops the cluster's endpoints at once. With
--revoke it then deletes in the linked cluster what isthmus link has made there: the
link's tokens and, once no other Secret has a token of it, the ServiceAccount and its
rights. A Secret that was made by hand counts too: another link may use its token.

Usage: isthmus unlink NAME [FLAGS]`

const unlinkEnding = `It first shows what services have without the cluster, as isthmus cordon does, and names
services that are left with nothing. If no replica answers within 10 s, it says so. It
never refuses: it asks before it deletes anything. Where standard input is no terminal, it
needs --yes.

What isthmus link has not made in the linked cluster stays there. An API server may accept
a deleted token for some ten seconds more.

Rights that you need: list and delete secrets in the links' namespace. To show what
services are left with, without --admin: list pods and create pods/portforward there. With
--revoke, in the gateway's cluster get namespace kube-system, and in the linked one too; there also
list and delete secrets and get and delete serviceaccounts in the account's namespace,
get and delete clusterroles and clusterrolebindings.

Exit code 1 if there is no such link, or something fails: running it again completes it.

Examples:
  isthmus unlink east
  isthmus unlink east --revoke --context east --dry-run
  isthmus unlink east --revoke --context east --to-context west --yes`

const cordonIntro = `isthmus cordon takes a linked cluster's endpoints out of all services, by the annotation
isthmus.io/cordon of its link Secret. It first shows what that leaves each service with,
and asks. It refuses to leave a service with nothing.

Usage: isthmus cordon NAME [FLAGS]`

const cordonEnding = `Every gateway that is ready foresees what is left, by the code that chooses endpoints for
clients, preferences and zones included: for ports that proxies watch, the endpoints of
those clients that are left with least; for other services, the clusters that serve.
The gateway's own cluster has no link: its cordon is the gateway's flag --cordon-local.

The annotation isthmus.io/cordon-over becomes what --over is, and is removed without it.
All else of the link Secret stays.

Rights that you need: list and patch secrets in the links' namespace; without --admin,
list pods and create pods/portforward there.

Exit code 1 if it is refused or fails, or if the gateway is not known to follow.

Examples:
  isthmus cordon east
  isthmus cordon east --last-resort --over 10m
  isthmus cordon east --dry-run --admin 127.0.0.1:9996
  isthmus cordon east --force --yes`

const uncordonIntro = `isthmus uncordon ends a cordon: it removes the annotation isthmus.io/cordon of the link
Secret. It first shows which services the cluster is in, and asks.

Usage: isthmus uncordon NAME [FLAGS]`

const uncordonEnding = `The annotation isthmus.io/cordon-over becomes what --over is, and is removed without it.
A cluster that is lost stays out as its isthmus.io/when-lost says.

Rights that you need: list and patch secrets in the links' namespace; without --admin,
list pods and create pods/portforward there.

Exit code 1 if it fails, or if the gateway is not known to follow.

Examples:
  isthmus uncordon east
  isthmus uncordon east --over 10m --yes`
