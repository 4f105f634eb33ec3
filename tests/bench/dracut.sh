#!/bin/bash
# Downloads and unpacks Debian's dracut, with which `make bench` compares landfall-image.
#
#   tests/bench/dracut.sh -o DIR
#
# The result is DIR/dracut. The packages are not installed: dracut would replace
# initramfs-tools, and its hooks would write into this machine's /boot. pigz is one of the
# packages, because dracut recommends it and uses it in place of gzip. The script makes
# the result again only after the script has changed.
set -euo pipefail
export LC_ALL=C

[ "${1:-}" = -o ] && [ -n "${2:-}" ] || { sed -n 4p "$0" >&2; exit 2; }
self=$(realpath "$0")
mkdir -p "$2"; out=$(cd "$2" && pwd)/dracut
say() { echo "dracut: $*" >&2; }

key=$(sha256sum < "$self" | cut -c1-64)
[ "$(cat "$out/key" 2> /dev/null)" != "$key" ] || exit 0
rm -rf "$out"
mkdir -p "$out/packages"

# download: downloads the packages. In Debian 13 and newer, dracut-install is a separate
# package.
download() {
  local packages='dracut-core pigz'
  case $(apt-cache policy dracut-install 2> /dev/null | awk '$1 == "Candidate:" { print $2 }') in
    '' | '(none)') ;;
    *) packages="$packages dracut-install" ;;
  esac
  say "downloading $packages"
  # shellcheck disable=SC2086  # a list of names
  (cd "$out/packages" && apt-get -qq -o APT::Sandbox::User=root download $packages)
}
# Outdated package lists name files that the archive no longer has: then update the lists
# and retry.
download || { say 'apt-get update'; apt-get -qq update; download; }
for package in "$out"/packages/*.deb; do dpkg-deb -x "$package" "$out"; done
dpkg-deb -f "$out"/packages/dracut-core_*.deb Version > "$out/version"
say "dracut $(cat "$out/version")"
echo "$key" > "$out/key"
