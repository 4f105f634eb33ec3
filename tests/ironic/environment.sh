#!/bin/bash
# Makes what the tests with the real Ironic need and no package has: a Python
# environment with Ironic and the Redfish emulator, an empty database, and the
# EFI system partition for the boot ISOs that Ironic builds.
#
#   tests/ironic/environment.sh [--version VERSION] -o DIR
#
# --version takes another release of Ironic, with the other packages as pinned: pip
# refuses those that it cannot work with.
#
# All of it is kept, and made again when the pins, this script or the machine's
# Python, libvirt or boot loaders change.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
version=''
if [ "${1:-}" = --version ]; then version=${2:-}; shift 2; fi
[ "${1:-}" = -o ] && [ -n "${2:-}" ] || { sed -n '6p' "$0" >&2; exit 2; }
mkdir -p "$2"; out=$(cd "$2" && pwd)
say() { echo "ironic: $*" >&2; }

# The distribution's: setup.sh installs the headers and the venv module for it,
# not for another Python that comes first in PATH.
python=/usr/bin/python3

key=$({
  # A virtual environment knows its own path: one that was moved does not work.
  echo "$out $version"
  cat "$here/requirements.txt" "$0"
  "$python" --version
  pkg-config --modversion libvirt
  dpkg-query -W -f '${Package} ${Version}\n' shim-signed grub-efi-amd64-signed
} | sha256sum | cut -c1-64)
if [ "$(cat "$out/key" 2> /dev/null)" = "$key" ]; then exit 0; fi
rm -rf "$out/key" "$out/venv" "$out/schema.sqlite" "$out/esp.img"

python_environment() {
  say 'installing Ironic and sushy-tools from PyPI'
  "$python" -m venv "$out/venv"
  sed "${version:+s/^ironic==.*/ironic==$version/}" "$here/requirements.txt" > "$out/requirements.txt"
  # These define an option of their own that newer releases of keystoneauth1 define too.
  # openstacksdk is the newest that works with this one.
  case $version in
    37.* | 38.*)
      sed -i -e 's/^keystoneauth1==.*/keystoneauth1==5.15.0/' -e 's/^openstacksdk==.*/openstacksdk==4.18.0/' \
        "$out/requirements.txt"
      ;;
  esac
  "$out/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$out/requirements.txt"
  # Compiled here, because its release must be that of the machine's libvirt.
  "$out/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    "libvirt-python==$(pkg-config --modversion libvirt)"
  # Prints what is missing on standard output, and nothing else says it.
  "$out/venv/bin/pip" check >&2 || {
    say "requirements.txt is not complete for $("$python" --version): add what pip misses"
    exit 1
  }
}

# create_schema, not upgrade: sqlite cannot alter constraints.
empty_database() {
  say 'making the database'
  printf '[DEFAULT]\nlog_file = %s\n[database]\nconnection = sqlite:///%s\n' \
    "$out/schema.log" "$out/schema.sqlite" > "$out/schema.conf"
  "$out/venv/bin/ironic-dbsync" --config-file "$out/schema.conf" create_schema > "$out/schema.out" 2>&1 ||
    { cat "$out/schema.out" >&2; exit 1; }
}

# The distribution's signed shim and GRUB, as an operator is told to take.  GRUB
# then reads /EFI/debian/grub.cfg of the ISO, which is where Ironic puts it.
efi_system_partition() {
  truncate -s 8M "$out/esp.img"
  mkfs.vfat -n ESP "$out/esp.img" > /dev/null
  mmd -i "$out/esp.img" ::/EFI ::/EFI/BOOT
  mcopy -i "$out/esp.img" /usr/lib/shim/shimx64.efi.signed ::/EFI/BOOT/BOOTX64.EFI
  mcopy -i "$out/esp.img" /usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed ::/EFI/BOOT/grubx64.efi
}

python_environment
empty_database
efi_system_partition
echo "$key" > "$out/key"
