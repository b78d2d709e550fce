#!/bin/sh
# Removes everything that demo.sh creates: the clusters, their network, the image, and out/k3d with kubeconfigs and
# certificates. The script needs docker and k3d. If it fails, you can run it again.
set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 1
root=$(cd "$here/../.." && pwd) || exit 1
script=destroy.sh
# shellcheck source=lib.sh source-path=SCRIPTDIR
. "$here/lib.sh"

need 'docker=it runs the clusters' 'k3d=it creates clusters from docker containers'
all=
for c in $clusters; do all="$all cluster:$c"; done
all="$all network image state"
# Names of things do not contain blanks.
# shellcheck disable=SC2086
[ -n "$(titles $all)" ] || {
  note 'there is nothing to remove'
  exit 0
}
# shellcheck disable=SC2086
remove $all
# shellcheck disable=SC2086
[ -z "$left" ] || fail "could not remove $(titles $left): see the messages above, and run this script again"
note 'everything that demo.sh creates has been removed'
