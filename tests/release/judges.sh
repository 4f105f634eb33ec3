#!/bin/bash
# Gets the programs that check a release: podman, skopeo, Apache, Ansible, mmdebstrap
# and a registry from Debian, and CycloneDX's validator from PyPI, in a venv.
#
#   tests/release/judges.sh -o DIR
#
# If all of them are there, the script ends at once.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

# apache2-bin has the web server without its service.
packages='podman runc skopeo mtools mandoc zstd python3-venv apache2-bin curl mmdebstrap ansible-core'

[ "${1:-}" = -o ] && [ -n "${2:-}" ] || { sed -n 5p "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
say() { echo "judges: $*" >&2; }

missing=''
for package in $packages; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
  [ "$(id -u)" = 0 ] || { say "needs root to install:$missing"; exit 1; }
  say "installing$missing"
  # shellcheck disable=SC2086  # a list of names
  apt-get -qq install -y --no-install-recommends $missing > /dev/null ||
    { apt-get -qq update; apt-get -qq install -y --no-install-recommends $missing > /dev/null; }
fi

# The package is unpacked, not installed: its service would start.
if [ ! -x "$out/registry/usr/bin/docker-registry" ]; then
  say 'downloading docker-registry'
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download docker-registry)
  dpkg-deb -x "$work"/docker-registry_*.deb "$out/registry"
fi

key=$(sha256sum < "$here/requirements.txt" | cut -c1-64)
[ "$(cat "$out/key" 2> /dev/null)" != "$key" ] || exit 0
say 'installing the validator of CycloneDX'
rm -rf "$out/venv" "$out/key"
python3 -m venv "$out/venv"
"$out/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
echo "$key" > "$out/key"
