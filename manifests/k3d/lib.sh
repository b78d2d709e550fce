# Definitions for demo.sh and destroy.sh: names of the demo's parts, and functions to wait and to clean up. The scripts set
# $script to their name and $root to the repository.
# shellcheck shell=sh disable=SC2034,SC2154

clusters='west east north'
network=isthmus-demo
image=isthmus:demo
state=$root/out/k3d # kubeconfigs, certificates with keys, Linkerd's manifests
limit=${ISTHMUS_DEMO_WAIT:-300}

note() { printf '== %s\n' "$*"; }

complain() { printf '%s: %s\n' "$script" "$*" >&2; }

fail() {
  complain "$@"
  exit 1
}

# need ends the script if a tool is missing. Each argument is TOOL=PURPOSE.
need() {
  missing=
  for tool in "$@"; do
    command -v "${tool%%=*}" >/dev/null && continue
    complain "${tool%%=*} is not in PATH: install it; ${tool#*=}"
    missing=yes
  done
  [ -z "$missing" ] || exit 1
  docker info >/dev/null 2>&1 || fail "docker does not respond: start it, or run \"docker info\" to see the error"
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
      fail "timed out after $limit s while waiting until $what: ${complaint:-$1 fails without a message}"
    fi
    if [ $((now - reported)) -ge 10 ]; then
      reported=$now
      printf '   still waiting until %s: %s of %s s; %s\n' "$what" $((now - began)) "$limit" "$complaint"
    fi
    sleep 1
  done
}

# node prints the name of the container that is the only node of a cluster.
node() { printf 'k3d-isthmus-%s-server-0\n' "$1"; }

# exists checks for cluster:NAME, network, image or state. The status is 0 if the thing exists, 1 if not, and 2 if unknown.
exists() {
  case $1 in
  cluster:*) name=isthmus-${1#*:} && known=$(k3d cluster list --no-headers) || return 2 ;;
  network) name=$network && known=$(docker network ls --format '{{.Name}}') || return 2 ;;
  image) name=$image && known=$(docker image ls --format '{{.Repository}}:{{.Tag}}') || return 2 ;;
  state)
    [ -d "$state" ]
    return $? # in a trap of bash, a bare return would return the status of the interrupted command
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

# title prints a description of a thing for users.
title() {
  case $1 in
  cluster:*) printf 'cluster isthmus-%s' "${1#*:}" ;;
  network) printf 'docker network %s' "$network" ;;
  image) printf 'image %s' "$image" ;;
  state) printf 'folder %s' "$state" ;;
  esac
}

# remove removes the given things in order, if they exist. It sets $left to the things that may still exist.
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

# titles prints the titles of the given things that exist or may exist, separated by commas.
titles() {
  list=
  for thing in "$@"; do
    exists "$thing" 2>/dev/null
    [ $? -eq 1 ] || list="$list${list:+, }$(title "$thing")"
  done
  printf '%s' "$list"
}
