#!/bin/bash
# Gets the programs with which the tests and the benchmark compare ours:
# coreos-installer from crates.io, and from Debian qemu-img, zstd, nginx and the
# programs that the write loop of ironic-python-agent calls.
#
#   tests/peers.sh -o DIR
#
# The result is DIR/coreos-installer/bin/coreos-installer. It is built again only when
# this script changes. Needs root if packages are missing.
set -euo pipefail
# RUNLEVEL=1: the installation of nginx starts no server.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive RUNLEVEL=1

version=0.26.0
# The C libraries that coreos-installer is linked with, and the other programs to
# compare with.
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
# In /, because .cargo/config.toml of the workspace requests a static binary; and with a
# target folder of its own, apart from the results of our crates.
(cd / && env -u CARGO_BUILD_TARGET -u RUSTFLAGS RUSTUP_TOOLCHAIN="$toolchain" CARGO_TARGET_DIR="$out/target" \
  cargo install --quiet coreos-installer --version "$version" --locked --root "$out")
rm -rf "$out/target"
echo "$key" > "$out/key"
say "$("$out/bin/coreos-installer" --version)"
