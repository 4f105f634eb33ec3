#!/bin/bash
# Makes a minimal root of this machine's Debian release, in which apt installs the Debian
# package of a release with what it depends on.
#
#   tests/release/minimal_root.sh PACKAGE.deb DIR
#
# Needs root and mmdebstrap. DEBIAN_MIRROR replaces http://deb.debian.org: a server with the folders
# debian and debian-security.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

mirror=${DEBIAN_MIRROR:-http://deb.debian.org}

[ -f "${1:-}" ] && [ -n "${2:-}" ] || { sed -n 5p "$0" >&2; exit 2; }
package=$(realpath "$1")
root=$(realpath -m "$2")
# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$release" ] || {
  echo 'minimal_root: cannot choose a release: expected VERSION_CODENAME in /etc/os-release, found none -- use Debian 12 or 13' >&2
  exit 1
}

signed='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
# The mounts of mmdebstrap end with the namespace, also after a failure.
unshare --mount mmdebstrap --quiet --variant=minbase --include=ca-certificates "$release" "$root" \
  "deb $signed $mirror/debian $release main" "deb $signed $mirror/debian-security $release-security main"
cp /etc/resolv.conf "$root/etc/resolv.conf"
# A proxy for packages belongs to the network, so apt in the new root needs it, too.
grep -hsi '^ *acquire::https\?::proxy' /etc/apt/apt.conf /etc/apt/apt.conf.d/* > "$root/etc/apt/apt.conf.d/80proxy" || true
cp "$package" "$root/root/landfall-image.deb"
unshare --mount --pid --fork --kill-child --propagation private \
  bash -euc '
    mount -t proc proc "$1/proc"
    chroot "$1" apt-get -qq update
    exec chroot "$1" apt-get -qq install -y --no-install-recommends /root/landfall-image.deb
  ' install "$root" > "$root/root/install.log" 2>&1 || { cat "$root/root/install.log" >&2; exit 1; }
rm "$root/root/landfall-image.deb"
