#!/bin/sh
# Creates three k3d clusters with Linkerd on one docker network, and a federated service over all three. In west, Isthmus
# replaces Linkerd's destination controller. The script then kills one cluster and restarts it. See README.md.
#
# You can run the script again: it keeps what exists and creates what is missing. After Ctrl-C, the script removes what the
# current run has created. After a failure, everything stays for inspection. destroy.sh removes everything.
#
# ISTHMUS_DEMO_WAIT is the maximum duration of each wait, in seconds. The default is 300.
#
# Functions are also called by await and by traps.
# shellcheck disable=SC2317,SC2329
set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 1
root=$(cd "$here/../.." && pwd) || exit 1
script=demo.sh
# shellcheck source=lib.sh source-path=SCRIPTDIR
. "$here/lib.sh"

isthmus=$root/bin/isthmus
made= # what this run has created, newest first

# record notes what is about to be created, because the creation can be interrupted.
record() { made="$1 $made"; }

interrupted() {
  trap '' EXIT
  trap 'abandoned' INT TERM HUP
  printf '\n'
  complain 'interrupted: removing only what this run has created (press Ctrl-C again to stop)'
  # shellcheck disable=SC2086
  remove $made
  # shellcheck disable=SC2086
  [ -z "$left" ] || complain "could not remove $(titles $left): run $here/destroy.sh"
  exit "$1"
}

abandoned() {
  trap '' INT TERM HUP
  complain "interrupted again: run $here/destroy.sh to remove the rest"
  exit 130
}

ended() {
  [ "$1" -ne 0 ] || return 0
  # shellcheck disable=SC2086
  there=$(titles $made)
  [ -z "$there" ] || complain "this run has created the following, and does not remove it: $there"
  complain "run the script again to continue, or $here/destroy.sh to remove everything"
}

context() { printf 'k3d-isthmus-%s' "$1"; }

kube() {
  in=$(context "$1")
  shift
  kubectl --context "$in" --request-timeout=10s "$@"
}

# pods prints the Pod network of a cluster, as in the k3d configuration of the cluster.
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

# certificates creates a trust anchor, and an issuer certificate for each cluster.
certificates() {
  if [ -s "$state/ca.crt" ] && [ -s "$state/ca.key" ]; then
    note 'using the certificates of an earlier run'
  else
    for c in $clusters; do
      absent "cluster:$c" || fail "cluster isthmus-$c exists from an earlier run, but its trust anchor $state/ca.crt does not: run $here/destroy.sh, and then this script again"
    done
    note 'creating a trust anchor'
    step certificate create root.linkerd.cluster.local "$state/ca.crt" "$state/ca.key" \
      --profile root-ca --no-password --insecure --force || fail 'step did not create a trust anchor'
  fi
  for c in $clusters; do
    [ -s "$state/$c-issuer.crt" ] && [ -s "$state/$c-issuer.key" ] && continue
    note "creating an issuer certificate for $c"
    step certificate create identity.linkerd.cluster.local "$state/$c-issuer.crt" "$state/$c-issuer.key" \
      --profile intermediate-ca --not-after 8760h --no-password --insecure --force \
      --ca "$state/ca.crt" --ca-key "$state/ca.key" || fail "step did not create an issuer certificate for $c"
  done
}

cluster() {
  if absent "cluster:$1"; then
    note "creating cluster isthmus-$1 (k3d waits up to 180 s for its server)"
    record "cluster:$1"
    k3d cluster create --config "$here/$1.yaml" || fail "k3d did not create cluster isthmus-$1"
  else
    note "starting the existing cluster isthmus-$1"
    k3d cluster start "isthmus-$1" || fail "k3d did not start cluster isthmus-$1"
  fi
  k3d kubeconfig get "isthmus-$1" >"$state/$1.kubeconfig" || fail "k3d did not return a kubeconfig for cluster isthmus-$1"
  await "the API server of $1 is ready" kube "$1" get --raw /readyz
}

# connect adds routes to the Pods of the other clusters to each node. A node that was restarted has lost its routes, and may
# have a different address.
connect() {
  note 'adding routes between the nodes to the Pods of all clusters'
  for to in $clusters; do
    via=$(address "$to") || via=
    [ -n "$via" ] || fail "the node of $to has no address in docker network $network"
    for from in $clusters; do
      [ "$from" = "$to" ] || docker exec "$(node "$from")" ip route replace "$(pods "$to")" via "$via" ||
        fail "cannot add a route from the node of $from to the Pods of $to"
    done
  done
}

build() {
  note 'building Isthmus and its image'
  if absent image; then record image; fi
  platform=$(docker version --format '{{.Server.Os}}/{{.Server.Arch}}') || fail 'docker did not report its platform'
  make -C "$root" build image IMAGE="$image" PLATFORMS="$platform" || fail "make did not build image $image"
  if absent image; then fail "docker does not have image $image after the build"; fi
  k3d image import "$image" --cluster isthmus-west || fail "k3d did not import image $image into cluster isthmus-west"
}

# render writes the output of linkerd install to a file, unless the file exists: each output has new webhook certificates.
render() {
  file=$state/$1-$2.yaml
  in=$(context "$1")
  shift 2
  [ -s "$file" ] || { linkerd install --context "$in" --ignore-cluster "$@" >"$file.part" && mv "$file.part" "$file"; } ||
    fail "linkerd did not render ${file##*/}"
}

linkerd_in() {
  note "installing Linkerd in $1"
  render "$1" crds --crds --set installGatewayAPI=true
  render "$1" linkerd --identity-trust-anchors-file "$state/ca.crt" \
    --identity-issuer-certificate-file "$state/$1-issuer.crt" --identity-issuer-key-file "$state/$1-issuer.key"
  kube "$1" apply --server-side --force-conflicts -f "$state/$1-crds.yaml" || fail "cannot apply Linkerd's CRDs in $1"
  if [ "$1" = west ] && has_gateway; then
    note "Isthmus already runs in west since an earlier run"
  else
    kube "$1" apply -f "$state/$1-linkerd.yaml" || fail "cannot apply Linkerd's manifest in $1"
  fi
  await "Linkerd runs in $1" kube "$1" -n linkerd rollout status deployment --timeout=5s
}

has_gateway() {
  [ "$(kube west -n linkerd get deployment linkerd-destination \
    -o 'jsonpath={.spec.template.spec.containers[?(@.name=="destination")].image}' 2>/dev/null)" = "$image" ]
}

# patch replaces Linkerd's destination controller in west with Isthmus.
patch() {
  note "replacing Linkerd's destination controller in west (to revert: kubectl apply -f $state/west-linkerd.yaml)"
  "$isthmus" post-render --image "$image" <"$state/west-linkerd.yaml" >"$state/west-isthmus.yaml" ||
    fail "isthmus post-render did not patch Linkerd's manifest"
  kube west apply -f "$state/west-isthmus.yaml" || fail 'cannot apply the patched manifest in west'
  await 'Isthmus runs in west' kube west -n linkerd rollout status deployment/linkerd-destination --timeout=5s
}

shop() {
  note 'deploying a shop in each cluster, and a federated service in west'
  for c in $clusters; do kube "$c" apply -k "$here/shop" || fail "cannot deploy the shop in $c"; done
  kube west apply -k "$here/federated" || fail 'cannot deploy the federated service in west'
  for c in $clusters; do
    await "the shop runs in $c" kube "$c" -n shop rollout status deployment --timeout=5s
  done
}

link() {
  note "linking $1 (isthmus link waits up to a minute until Isthmus watches it)"
  "$isthmus" link "$1" --context "$(context "$1")" --to-context "$(context west)" --server "https://$(address "$1"):6443" \
    --address-ranges "$(pods "$1")" --apply || fail "cannot link $1 to west"
}

# in_state checks whether Isthmus shows a cluster in the given state.
in_state() {
  table=$("$isthmus" clusters --context "$(context west)" 2>&1)
  row=$(printf '%s\n' "$table" | grep "^$1 ")
  printf '%s\n' "${row:-$table}"
  printf '%s\n' "$row" | grep -q "^$1  *$2 "
}

answers() { kube west -n shop logs deployment/client -c client --since=5s; }

has_answers() { answers | grep -qv failed; }

# show prints the clusters, the endpoints for a proxy in west, and the responses to a client in west.
show() {
  note "$1: clusters according to Isthmus in west"
  "$isthmus" clusters --context "$(context west)" || [ $? -eq 1 ] || fail "isthmus clusters failed"
  note "$1: endpoints of web-federated for a proxy in west"
  "$isthmus" get web-federated.shop.svc.cluster.local:80 --once --context "$(context west)" || fail 'isthmus get failed'
  await 'a client in west gets responses' has_answers
  note "$1: responses to a client in west in the last 5 s, by node"
  answers | sort | uniq -c
}

case $limit in
'' | *[!0-9]*) fail "ISTHMUS_DEMO_WAIT is \"$limit\": give a number of seconds" ;;
esac
need 'docker=it runs the clusters' 'k3d=it creates clusters from docker containers' \
  'kubectl=it applies manifests' 'linkerd=it renders Linkerd for each cluster' 'step=it creates the certificates' \
  'make=it builds Isthmus' 'go=it builds Isthmus'

trap 'ended $?' EXIT
trap 'interrupted 130' INT
trap 'interrupted 143' TERM
trap 'interrupted 129' HUP

KUBECONFIG=
for c in $clusters; do KUBECONFIG="$KUBECONFIG${KUBECONFIG:+:}$state/$c.kubeconfig"; done
export KUBECONFIG

if absent state; then record state; fi
(umask 077 && mkdir -p "$state") || fail "cannot create folder $state"
certificates
if absent network; then
  record network
  docker network create "$network" >/dev/null || fail "docker did not create network $network"
fi
for c in $clusters; do cluster "$c"; done
connect
build
for c in $clusters; do linkerd_in "$c"; done
patch
shop
for c in east north; do link "$c"; done
show 'all clusters run'

note "killing the node of east"
docker kill "$(node east)" >/dev/null || fail "docker did not kill the node of east"
await 'Isthmus shows east as stale' in_state east stale
show 'east is unavailable'

note 'restarting east'
cluster east
connect
link east
await 'Isthmus shows east as ready' in_state east ready
await 'the shop runs in east' kube east -n shop rollout status deployment --timeout=5s
show 'east is back'

note "everything keeps running: export KUBECONFIG=$KUBECONFIG"
note "contexts $(context west), $(context east), $(context north); $here/destroy.sh removes everything"
