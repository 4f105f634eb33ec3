#!/bin/bash
# Makes what the tests with the real Ironic need and no package contains: a Python
# environment with Ironic and the Redfish emulator, an empty database, and the EFI
# system partition for the boot ISOs that Ironic builds.
#
#   tests/ironic/environment.sh [--version VERSION] -o DIR
#
# --version installs another release of Ironic, with the other packages as pinned. `pip
# check` fails if that release does not work with one of them.
#
# Everything is kept, and made again only when the pins, this script or the machine's
# Python, libvirt or boot loaders change.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
version=''
if [ "${1:-}" = --version ]; then version=${2:-}; shift 2; fi
[ "${1:-}" = -o ] && [ -n "${2:-}" ] || { sed -n '6p' "$0" >&2; exit 2; }
mkdir -p "$2"; out=$(cd "$2" && pwd)
say() { echo "ironic: $*" >&2; }

# The distribution's Python: setup.sh installs the headers and the venv module for it,
# not for another Python that comes first in PATH.
python=/usr/bin/python3

key=$({
  # A virtual environment contains its own path, so it does not work after it was moved.
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
  # These releases define an option that newer releases of keystoneauth1 define too.
  # This openstacksdk is the newest that works with the older keystoneauth1.
  case $version in
    37.* | 38.*)
      sed -i -e 's/^keystoneauth1==.*/keystoneauth1==5.15.0/' -e 's/^openstacksdk==.*/openstacksdk==4.18.0/' \
        "$out/requirements.txt"
      ;;
  esac
  "$out/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$out/requirements.txt"
  # Compiled here, because its version must be that of the machine's libvirt.
  "$out/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    "libvirt-python==$(pkg-config --modversion libvirt)"
  # `pip check` prints missing packages on standard output only.
  "$out/venv/bin/pip" check >&2 || {
    say "requirements.txt is not complete for $("$python" --version): add what pip misses"
    exit 1
  }
}

# Uses create_schema instead of upgrade, because SQLite cannot alter constraints.
empty_database() {
  say 'making the database'
  printf '[DEFAULT]\nlog_file = %s\n[database]\nconnection = sqlite:///%s\n' \
    "$out/schema.log" "$out/schema.sqlite" > "$out/schema.conf"
  "$out/venv/bin/ironic-dbsync" --config-file "$out/schema.conf" create_schema > "$out/schema.out" 2>&1 ||
    { cat "$out/schema.out" >&2; exit 1; }
}

# Has the distribution's signed shim and GRUB, as Ironic's documentation tells operators
# to use.  GRUB then reads /EFI/debian/grub.cfg of the ISO, where Ironic puts its menu.
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
