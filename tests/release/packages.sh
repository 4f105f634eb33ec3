#!/bin/bash
# Downloads the Debian packages that the builder's container is made of: what
# landfall-image calls, with all that it depends on, for a machine that has nothing.
# Nothing is installed.
#
#   tests/release/packages.sh -o DIR
#
# Needs the package lists of apt (apt-get update). Does nothing if DIR has packages.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

# dpkg and tar unpack the kernel's package; base-files has the licences.
packages='base-files ca-certificates dpkg grub-common grub-efi-amd64-bin grub-efi-amd64-signed
  grub-pc-bin ipxe mtools shim-signed tar xorriso zstd'

[ "${1:-}" = -o ] && [ -n "${2:-}" ] || { sed -n 6p "$0" >&2; exit 2; }
mkdir -p "$2"
out=$(cd "$2" && pwd)
! ls "$out"/*.deb > /dev/null 2>&1 || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/cache/partial"
touch "$work/status"
echo 'release: downloading the packages of the builder'"'"'s container' >&2
# With an empty dpkg status file apt counts no package as installed.
download() {
  # shellcheck disable=SC2086  # a list of names
  apt-get -qq install -y --download-only --no-install-recommends \
    -o APT::Sandbox::User=root -o "Dir::State::status=$work/status" -o "Dir::Cache::archives=$work/cache" $packages > /dev/null
}
download || { apt-get -qq update; download; }
# Move all packages at once, so that DIR never has only some of them.
mv "$work"/cache/*.deb "$out"/
