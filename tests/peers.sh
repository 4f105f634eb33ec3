#!/bin/bash
# What ours is compared with, for the comparison of the disks and for the
# benchmark: coreos-installer from its published crate, and from Debian qemu-img,
# zstd, nginx and what the original agent's loop needs.
#
#   tests/peers.sh -o DIR
#
# The result is DIR/coreos-installer/bin/coreos-installer. Built once and kept;
# made again when this script changes. Needs root where libraries are missing.
set -euo pipefail
# RUNLEVEL: the installation of nginx starts no server.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive RUNLEVEL=1

version=0.26.0
# What its crates of C libraries are linked with; the other peers.
packages='pkg-config libssl-dev libzstd-dev liblzma-dev curl zstd xz-utils nginx-light qemu-utils gdisk util-linux'

[ "${1:-}" = -o ] && [ -n "${2:-}" ] || { sed -n 6p "$0" >&2; exit 2; }
self=$(realpath "$0")
toolchain=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$(dirname "$self")/../rust-toolchain.toml")
mkdir -p "$2"; out=$(cd "$2" && pwd)/coreos-installer
say() { echo "peers: $*" >&2; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]; }
missing=''
for package in $packages; do installed "$package" || missing="$missing $package"; done
python3 -c 'import requests' 2> /dev/null || missing="$missing python3-requests"
if [ -n "$missing" ]; then
  [ "$(id -u)" = 0 ] || { say "needs root to install:$missing"; exit 1; }
  say "installing$missing"
  # shellcheck disable=SC2086  # a list of names
  apt-get -qq install -y --no-install-recommends $missing > /dev/null ||
    { apt-get -qq update; apt-get -qq install -y --no-install-recommends $missing > /dev/null; }
fi

key=$(sha256sum < "$self" | cut -c1-64)
if [ "$(cat "$out/key" 2> /dev/null)" = "$key" ] && [ -x "$out/bin/coreos-installer" ]; then exit 0; fi
rm -rf "$out"
mkdir -p "$out"

say "building coreos-installer $version"
# Outside of the workspace, whose .cargo/config.toml asks for a static binary;
# and in a folder of its own, not among the results of our crates.
(cd / && env -u CARGO_BUILD_TARGET -u RUSTFLAGS RUSTUP_TOOLCHAIN="$toolchain" CARGO_TARGET_DIR="$out/target" \
  cargo install --quiet coreos-installer --version "$version" --locked --root "$out")
rm -rf "$out/target"
echo "$key" > "$out/key"
say "$("$out/bin/coreos-installer" --version)"
