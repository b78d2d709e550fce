#!/bin/sh
# Replaces the destination container of a rendered Linkerd chart by Isthmus:
#
#   ISTHMUS_IMAGE=registry.example.com/isthmus:v1 helm upgrade linkerd-control-plane \
#     linkerd-edge/linkerd-control-plane -n linkerd --reuse-values --post-renderer ./post-renderer.sh
#
# That is Helm 3's way. It reads objects from standard input and writes them to standard
# output, so it also goes between helm template and kubectl apply. It needs kubectl, or
# KUSTOMIZE='kustomize build'.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
kustomize=${KUSTOMIZE:-kubectl kustomize}

if [ -z "${ISTHMUS_IMAGE:-}" ]; then
	echo "post-renderer.sh: ISTHMUS_IMAGE is not set: give the image of Isthmus, as NAME:TAG or NAME@sha256:DIGEST" >&2
	exit 1
fi
if ! command -v "${kustomize%% *}" >/dev/null; then
	echo "post-renderer.sh: ${kustomize%% *} is not in PATH: install it, or set KUSTOMIZE to another command that builds kustomizations" >&2
	exit 1
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cat >"$dir/rendered.yaml"
mkdir "$dir/linkerd"
cp "$here/kustomization.yaml" "$dir/linkerd/"
sed "s|image: isthmus:dev|image: $ISTHMUS_IMAGE|" "$here/isthmus.yaml" >"$dir/linkerd/isthmus.yaml"
cat >"$dir/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [rendered.yaml]
components: [linkerd]
END
# KUSTOMIZE is a command with arguments.
# shellcheck disable=SC2086
$kustomize "$dir"
