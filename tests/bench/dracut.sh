#!/bin/bash
# dracut, with which `make bench` compares landfall-image: Debian's packages, unpacked.
#
#   tests/bench/dracut.sh -o DIR
#
# The result is DIR/dracut. The packages are not installed: dracut would replace
# initramfs-tools, and its hooks would write into this machine's /boot. pigz is one of
# them because dracut recommends it and uses it in place of gzip. Made once and kept; made
# again when this script changes.
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

# download: dracut-install is a package of its own after Debian 12.
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
# Lists that are older than the archive name files that have gone.
download || { say 'apt-get update'; apt-get -qq update; download; }
for package in "$out"/packages/*.deb; do dpkg-deb -x "$package" "$out"; done
dpkg-deb -f "$out"/packages/dracut-core_*.deb Version > "$out/version"
say "dracut $(cat "$out/version")"
echo "$key" > "$out/key"
