# What demo.sh and destroy.sh share: the things that the demo is made of, and how to wait and to stop.
# They set $script, their name, and $root, the repository.
# shellcheck shell=sh disable=SC2034,SC2154

clusters='west east north'
network=isthmus-demo
image=isthmus:demo
state=$root/out/k3d # kubeconfigs, certificates with their keys, Linkerd's manifests
limit=${ISTHMUS_DEMO_WAIT:-300}

note() { printf '== %s\n' "$*"; }

complain() { printf '%s: %s\n' "$script" "$*" >&2; }

fail() {
  complain "$@"
  exit 1
}

# need ends the script unless all tools are there. An argument is TOOL=WHAT IT IS FOR.
need() {
  missing=
  for tool in "$@"; do
    command -v "${tool%%=*}" >/dev/null && continue
    complain "${tool%%=*} is not in PATH: install it; ${tool#*=}"
    missing=yes
  done
  [ -z "$missing" ] || exit 1
  docker info >/dev/null 2>&1 || fail "docker does not answer: start it, or see what \"docker info\" has to complain of"
}

# await repeats a command until it succeeds: await WHAT COMMAND ARGUMENTS...
await() {
  what=$1
  shift
  began=$(date +%s)
  reported=$began
  printf '   waiting until %s\n' "$what"
  until complaint=$("$@" 2>&1); do
    now=$(date +%s)
    complaint=$(printf '%s\n' "$complaint" | tail -n 1)
    if [ $((now - began)) -ge "$limit" ]; then
      fail "waited $limit s in vain until $what: ${complaint:-$1 fails without a message}"
    fi
    if [ $((now - reported)) -ge 10 ]; then
      reported=$now
      printf '   still waiting until %s: %s of %s s; %s\n' "$what" $((now - began)) "$limit" "$complaint"
    fi
    sleep 1
  done
}

# node is the container that is a cluster's only node.
node() { printf 'k3d-isthmus-%s-server-0\n' "$1"; }

# exists is 0 if a thing is there: cluster:NAME, network, image or state. It is 1 if it is not, and 2 if nobody knows.
exists() {
  case $1 in
  cluster:*) name=isthmus-${1#*:} && known=$(k3d cluster list --no-headers) || return 2 ;;
  network) name=$network && known=$(docker network ls --format '{{.Name}}') || return 2 ;;
  image) name=$image && known=$(docker image ls --format '{{.Repository}}:{{.Tag}}') || return 2 ;;
  state)
    [ -d "$state" ]
    return $? # a bare return would take the status of what was interrupted, in a trap of bash
    ;;
  esac
  printf '%s\n' "$known" | grep -Eq "^${name}([[:space:]]|\$)"
}

absent() {
  exists "$1"
  case $? in
  0) return 1 ;;
  1) return 0 ;;
  esac
  fail "cannot find out whether there is a $(title "$1")"
}

# title names a thing to people.
title() {
  case $1 in
  cluster:*) printf 'cluster isthmus-%s' "${1#*:}" ;;
  network) printf 'docker network %s' "$network" ;;
  image) printf 'image %s' "$image" ;;
  state) printf 'folder %s' "$state" ;;
  esac
}

# remove removes those of some things that are there, in this order, and lists in $left those that may not be gone.
remove() {
  left=
  for thing in "$@"; do
    exists "$thing"
    [ $? -ne 1 ] || continue
    printf '   removing %s\n' "$(title "$thing")"
    case $thing in
    cluster:*) k3d cluster delete "isthmus-${thing#*:}" ;;
    network) docker network rm "$network" >/dev/null ;;
    image) docker image rm "$image" >/dev/null ;;
    state) rm -rf "$state" ;;
    esac
    exists "$thing"
    [ $? -eq 1 ] || left="$left $thing"
  done
}

# titles prints titles of those things that are there, or may be, divided by commas.
titles() {
  list=
  for thing in "$@"; do
    exists "$thing" 2>/dev/null
    [ $? -eq 1 ] || list="$list${list:+, }$(title "$thing")"
  done
  printf '%s' "$list"
}
