#!/bin/bash
# Downloads the kubectl that renders the controller's manifests in the tests.
#
#   tests/kubernetes/kubectl.sh -o DIR
#
# The result is DIR/bin/kubectl. It is Debian 13's, also on Debian 12, whose kubectl
# 1.20 is too old for the manifests (docs/controller.md). The package is unpacked, not
# installed. If DIR/bin/kubectl exists, the script ends at once.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

release=trixie
mirror=${DEBIAN_MIRROR:-http://deb.debian.org}

[ "${1:-}" = -o ] && [ -n "${2:-}" ] || { sed -n 4p "$0" >&2; exit 2; }
mkdir -p "$2/bin"; out=$(cd "$2" && pwd)
[ ! -x "$out/bin/kubectl" ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lists/partial cache/archives/partial
# apt with lists of its own. Its dpkg status file is empty, so that apt does not prefer
# the version of a kubectl that is installed on the machine.
touch status
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror/debian $release main" > sources.list
apt() {
  apt-get -qq -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$PWD/lists" -o Dir::State::status="$PWD/status" -o Dir::Cache="$PWD/cache" \
    -o Dir::Etc::PreferencesParts=/dev/null -o APT::Sandbox::User=root "$@"
}
echo "kubectl: downloading that of $release" >&2
apt update
apt download kubectl
dpkg-deb -x kubectl_*.deb root
root/usr/bin/kubectl version --client >&2
install root/usr/bin/kubectl "$out/bin/.kubectl"
mv "$out/bin/.kubectl" "$out/bin/kubectl"
