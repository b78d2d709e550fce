#!/bin/sh
# Three k3d clusters on one docker network, Linkerd in each, the gateway in the place of Linkerd's destination in west, and
# a federated service over all three; then one cluster is killed, and comes back. See README.md.
#
# It can be run again: what is there stays, what is missing is made. After Ctrl-C all that this run has made is removed;
# after a failure it stays, to look at. destroy.sh removes everything.
#
# ISTHMUS_DEMO_WAIT: no wait is longer than so many seconds (300).
#
# Functions are called by await and by traps too.
# shellcheck disable=SC2317,SC2329
set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 1
root=$(cd "$here/../.." && pwd) || exit 1
script=demo.sh
# shellcheck source=lib.sh source-path=SCRIPTDIR
. "$here/lib.sh"

isthmus=$root/bin/isthmus
made= # by this run, newest first

# record comes before a thing is made, since that can be interrupted.
record() { made="$1 $made"; }

interrupted() {
  trap '' EXIT
  trap 'abandoned' INT TERM HUP
  printf '\n'
  complain 'interrupted: removing what this run has made, and nothing else (Ctrl-C again leaves the rest)'
  # shellcheck disable=SC2086
  remove $made
  # shellcheck disable=SC2086
  [ -z "$left" ] || complain "could not remove $(titles $left): run $here/destroy.sh"
  exit "$1"
}

abandoned() {
  trap '' INT TERM HUP
  complain "interrupted again: $here/destroy.sh removes what is left"
  exit 130
}

ended() {
  [ "$1" -ne 0 ] || return 0
  # shellcheck disable=SC2086
  there=$(titles $made)
  [ -z "$there" ] || complain "this run has made, and leaves: $there"
  complain "run it again to go on, or $here/destroy.sh to remove everything"
}

context() { printf 'k3d-isthmus-%s' "$1"; }

kube() {
  in=$(context "$1")
  shift
  kubectl --context "$in" --request-timeout=10s "$@"
}

# pods is the network of a cluster's Pods, as its k3d config has it.
pods() {
  case $1 in
  west) echo 10.41.0.0/16 ;;
  east) echo 10.42.0.0/16 ;;
  north) echo 10.43.0.0/16 ;;
  esac
}

address() {
  docker container inspect --format "{{(index .NetworkSettings.Networks \"$network\").IPAddress}}" "$(node "$1")"
}

# certificates makes one trust anchor, and an issuer for each cluster.
certificates() {
  if [ -s "$state/ca.crt" ] && [ -s "$state/ca.key" ]; then
    note 'the certificates are there from an earlier run'
  else
    for c in $clusters; do
      absent "cluster:$c" || fail "cluster isthmus-$c is there from an earlier run, but its trust anchor, $state/ca.crt, is not: run $here/destroy.sh, then this again"
    done
    note 'making a trust anchor'
    step certificate create root.linkerd.cluster.local "$state/ca.crt" "$state/ca.key" \
      --profile root-ca --no-password --insecure --force || fail 'step has made no trust anchor'
  fi
  for c in $clusters; do
    [ -s "$state/$c-issuer.crt" ] && [ -s "$state/$c-issuer.key" ] && continue
    note "making an issuer for $c"
    step certificate create identity.linkerd.cluster.local "$state/$c-issuer.crt" "$state/$c-issuer.key" \
      --profile intermediate-ca --not-after 8760h --no-password --insecure --force \
      --ca "$state/ca.crt" --ca-key "$state/ca.key" || fail "step has made no issuer for $c"
  done
}

cluster() {
  if absent "cluster:$1"; then
    note "creating cluster isthmus-$1: k3d waits up to 180 s until its server runs"
    record "cluster:$1"
    k3d cluster create --config "$here/$1.yaml" || fail "k3d has not created cluster isthmus-$1"
  else
    note "starting cluster isthmus-$1, which is there from before"
    k3d cluster start "isthmus-$1" || fail "k3d has not started cluster isthmus-$1"
  fi
  k3d kubeconfig get "isthmus-$1" >"$state/$1.kubeconfig" || fail "k3d has no kubeconfig of cluster isthmus-$1"
  await "the API server of $1 is ready" kube "$1" get --raw /readyz
}

# connect gives each node routes to the Pods of the other clusters. A node that was stopped has lost them, and may have
# another address now.
connect() {
  note 'routes between the nodes, to the Pods of all clusters'
  for to in $clusters; do
    via=$(address "$to") || via=
    [ -n "$via" ] || fail "the node of $to has no address in docker network $network"
    for from in $clusters; do
      [ "$from" = "$to" ] || docker exec "$(node "$from")" ip route replace "$(pods "$to")" via "$via" ||
        fail "no route in the node of $from to the Pods of $to"
    done
  done
}

build() {
  note 'building the gateway and its image'
  if absent image; then record image; fi
  platform=$(docker version --format '{{.Server.Os}}/{{.Server.Arch}}') || fail 'docker has not named its platform'
  make -C "$root" build image IMAGE="$image" PLATFORMS="$platform" || fail "make has not built image $image"
  if absent image; then fail "make has built no image $image that docker has"; fi
  k3d image import "$image" --cluster isthmus-west || fail "k3d has not imported image $image into cluster isthmus-west"
}

# render writes what linkerd prints into a file, once: webhooks have other certificates each time.
render() {
  file=$state/$1-$2.yaml
  in=$(context "$1")
  shift 2
  [ -s "$file" ] || { linkerd install --context "$in" --ignore-cluster "$@" >"$file.part" && mv "$file.part" "$file"; } ||
    fail "linkerd has not rendered ${file##*/}"
}

linkerd_in() {
  note "Linkerd in $1"
  render "$1" crds --crds --set installGatewayAPI=true
  render "$1" linkerd --identity-trust-anchors-file "$state/ca.crt" \
    --identity-issuer-certificate-file "$state/$1-issuer.crt" --identity-issuer-key-file "$state/$1-issuer.key"
  kube "$1" apply --server-side --force-conflicts -f "$state/$1-crds.yaml" || fail "Linkerd's definitions are not in $1"
  if [ "$1" = west ] && has_gateway; then
    note "the gateway is in Linkerd's place in west from an earlier run"
  else
    kube "$1" apply -f "$state/$1-linkerd.yaml" || fail "Linkerd is not in $1"
  fi
  await "Linkerd runs in $1" kube "$1" -n linkerd rollout status deployment --timeout=5s
}

has_gateway() {
  [ "$(kube west -n linkerd get deployment linkerd-destination \
    -o 'jsonpath={.spec.template.spec.containers[?(@.name=="destination")].image}' 2>/dev/null)" = "$image" ]
}

# patch puts the gateway into the place of Linkerd's destination in west.
patch() {
  note "the gateway in the place of Linkerd's destination in west (and back: kubectl apply -f $state/west-linkerd.yaml)"
  "$isthmus" post-render --image "$image" <"$state/west-linkerd.yaml" >"$state/west-isthmus.yaml" ||
    fail "isthmus post-render has not patched Linkerd's manifest"
  kube west apply -f "$state/west-isthmus.yaml" || fail 'the patched Linkerd is not in west'
  await 'the gateway runs in west' kube west -n linkerd rollout status deployment/linkerd-destination --timeout=5s
}

shop() {
  note 'a shop in each cluster, and a federated service over all in west'
  for c in $clusters; do kube "$c" apply -k "$here/shop" || fail "the shop is not in $c"; done
  kube west apply -k "$here/federated" || fail 'the federated service is not in west'
  for c in $clusters; do
    await "the shop runs in $c" kube "$c" -n shop rollout status deployment --timeout=5s
  done
}

link() {
  note "linking $1: isthmus link waits up to a minute until the gateway reads it"
  "$isthmus" link "$1" --context "$(context "$1")" --to-context "$(context west)" --server "https://$(address "$1"):6443" \
    --address-ranges "$(pods "$1")" --apply || fail "$1 is not linked to west"
}

# in_state compares what the gateway shows as the state of a cluster.
in_state() {
  table=$("$isthmus" clusters --context "$(context west)" 2>&1)
  row=$(printf '%s\n' "$table" | grep "^$1 ")
  printf '%s\n' "${row:-$table}"
  printf '%s\n' "$row" | grep -q "^$1  *$2 "
}

answers() { kube west -n shop logs deployment/client -c client --since=5s; }

has_answers() { answers | grep -qv failed; }

# show prints what the gateway knows, what a proxy in west is sent, and what a client in west gets.
show() {
  note "$1: clusters, as the gateway in west knows them"
  "$isthmus" clusters --context "$(context west)" || [ $? -eq 1 ] || fail "isthmus clusters has failed"
  note "$1: endpoints of web-federated, as a proxy in west gets them"
  "$isthmus" get web-federated.shop.svc.cluster.local:80 --once --context "$(context west)" || fail 'isthmus get has failed'
  await 'a client in west has answers' has_answers
  note "$1: answers to a client in west in the last 5 s, by node"
  answers | sort | uniq -c
}

case $limit in
'' | *[!0-9]*) fail "ISTHMUS_DEMO_WAIT is \"$limit\": give a number of seconds" ;;
esac
need 'docker=it runs the clusters' 'k3d=it makes clusters of docker containers' \
  'kubectl=it applies manifests' 'linkerd=it renders Linkerd for each cluster' 'step=it makes the trust anchor and issuers' \
  'make=it builds the gateway' 'go=it builds the gateway'

trap 'ended $?' EXIT
trap 'interrupted 130' INT
trap 'interrupted 143' TERM
trap 'interrupted 129' HUP

KUBECONFIG=
for c in $clusters; do KUBECONFIG="$KUBECONFIG${KUBECONFIG:+:}$state/$c.kubeconfig"; done
export KUBECONFIG

if absent state; then record state; fi
(umask 077 && mkdir -p "$state") || fail "no folder $state"
certificates
if absent network; then
  record network
  docker network create "$network" >/dev/null || fail "docker has not created network $network"
fi
for c in $clusters; do cluster "$c"; done
connect
build
for c in $clusters; do linkerd_in "$c"; done
patch
shop
for c in east north; do link "$c"; done
show 'all is well'

note "killing east's node"
docker kill "$(node east)" >/dev/null || fail "docker has not killed the node of east"
await 'the gateway has noticed that east is away' in_state east stale
show 'east is away'

note 'east comes back'
cluster east
connect
link east
await 'the gateway reads east again' in_state east ready
await 'the shop runs in east' kube east -n shop rollout status deployment --timeout=5s
show 'east is back'

note "all is left running: export KUBECONFIG=$KUBECONFIG"
note "contexts $(context west), $(context east), $(context north); $here/destroy.sh removes everything"
