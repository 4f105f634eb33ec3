#!/bin/bash
# Gets a Debian 12 or 13 machine ready to build and test: installs missing packages, and
# downloads those that are only unpacked (kernels, Ignition, NetworkManager, dracut,
# open-iscsi) into out/packages.  Does nothing when all is there.
#
#   tests/setup.sh [--for build|demo|lab|tests] [--list]
#   tests/setup.sh --build-only
#
# Each purpose includes the ones before it; the default is tests.  --list prints the
# packages that are missing, and changes nothing.  --build-only installs the packages
# of "build", and downloads nothing into out/packages.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

cd "$(dirname "$0")/.."
say() { echo "setup: $*" >&2; }

purpose=tests download=1 list=''
while [ $# -gt 0 ]; do
  case $1 in
    --for) purpose=${2:-}; shift; shift || true ;;
    --build-only) purpose=build download=''; shift ;;
    --list) list=1; shift ;;
    *) sed -n '6,7p' "$0" >&2; exit 2 ;;
  esac
done
case $purpose in
  build) level=1 ;;
  demo) level=2 ;;
  lab) level=3 ;;
  tests) level=4 ;;
  *) say "expected build, demo, lab or tests after --for, found '$purpose'"; exit 2 ;;
esac

# needs LEVEL PACKAGE...: adds the packages if the level of the purpose is LEVEL or
# higher.
packages=''
needs() { [ "$level" -lt "$1" ] || packages="$packages ${*:2}"; }

# The compiler for the crates, and what landfall-image calls and reads.
needs 1 gcc libc6-dev make xorriso mtools grub-common grub-pc-bin grub-efi-amd64-bin \
  grub-efi-amd64-signed shim-signed systemd-boot-efi ipxe
# The virtual host and its network, and the recipe of the test image.
needs 2 qemu-system-x86 ipxe-qemu ovmf dnsmasq-base iproute2 util-linux mount passwd \
  busybox-static gdisk e2fsprogs dosfstools cpio zstd xz-utils kmod libc-bin
# The lab with the real Ironic: its Python environment, the libvirt below the
# emulated BMC, and what Ironic builds ISOs with.
needs 3 python3-venv python3-dev pkg-config libvirt-dev libvirt-daemon \
  libvirt-daemon-driver-qemu libvirt-clients qemu-utils seabios genisoimage isolinux syslinux-common
# The emulated BMC keeps its media in a storage pool. Debian 12 has that driver
# in libvirt-daemon.
# shellcheck source=/dev/null
[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || needs 3 libvirt-daemon-driver-storage
# The network of the tests, and the recipes of the live system and of the image
# with NetworkManager.
needs 4 avahi-daemon openssl lldpd iputils-ping udev xfsprogs mmdebstrap
# The programs that create the file systems and volumes that cleaning has to erase.
needs 4 bcache-tools btrfs-progs cryptsetup-bin erofs-utils exfatprogs f2fs-tools gfs2-utils \
  lvm2 mdadm nilfs-tools ntfs-3g udftools util-linux-extra
# Gives an agent a clock of its own (tests/ironic/src/endurance/clock.rs).
needs 4 qemu-user libfaketime
# The syslog server that gets the agent's log, also over TLS.
needs 4 rsyslog rsyslog-openssl
# The DHCP server of the documentation's example, in addition to dnsmasq, and a TFTP
# client (curl).
needs 4 kea-dhcp4-server curl
# The cache that many hosts download through.
needs 4 squid
# Checks the systemd unit of the image service (systemd-analyze).
needs 4 systemd
# The browser in which the tests open the status pages.
needs 4 chromium fonts-dejavu-core
# Builds the packages of a RHEL-like kernel.
needs 4 rpm
# The SSH server of the rescue layer, and the client that logs in to it.
needs 4 dropbear-bin openssh-client
# The iSCSI target that a host boots from.
needs 4 tgt

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]; }
candidate() { apt-cache policy "$1" | awk '$1 == "Candidate:" { print $2 }'; }

updated=''
update() { # at most once
  [ -n "$updated" ] || { say 'apt-get update'; apt-get -qq update; updated=1; }
}

missing_packages() {
  local package missing=''
  for package in $packages; do installed "$package" || missing="$missing $package"; done
  echo "$missing"
}

install_missing() {
  local missing
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  [ "$(id -u)" = 0 ] || { say "needs root to install:$missing"; exit 1; }
  update
  # All binary packages of qemu must have one version.  A machine may have a newer
  # qemu-utils than its release (from a CI image's own archive), and apt then finds no
  # solution unless the older version is requested explicitly.
  local utils wanted
  case $missing in
    *qemu-system-x86*)
      utils=$(dpkg-query -W -f '${Version}' qemu-utils 2> /dev/null || true)
      wanted=$(candidate qemu-system-x86)
      if [ -n "$utils" ] && dpkg --compare-versions "$utils" gt "$wanted"; then
        missing="$missing qemu-utils=$wanted"
      fi
      ;;
  esac
  say "installing$missing"
  # The tests start the services that they need: no package shall start a service on
  # this machine (Debian Policy, 9.3.3.2: invoke-rc.d calls policy-rc.d). After its next
  # boot the services run as in Debian.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap "rm -f $policy" EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
  fi
  # shellcheck disable=SC2086  # a list of names
  apt-get -qq install -y --no-install-recommends --allow-downgrades $missing > /dev/null
  [ -z "$(trap -p EXIT)" ] || { rm -f "$policy"; trap - EXIT; }
}

# download NAME FOLDER: downloads the package's .deb into the folder, unless one is
# there.
download() {
  local file
  mkdir -p "$2"
  for file in "$2"/"$1"_*.deb; do [ ! -f "$file" ] || return 0; done
  say "downloading $1"
  # If apt's lists are older than the archive, they name files that are no longer there.
  (cd "$2" && apt-get -qq download "$1") || { update; (cd "$2" && apt-get -qq download "$1"); }
}

# kernel_package META: prints the kernel package on which a metapackage depends.
kernel_package() {
  apt-cache depends "$1" 2> /dev/null | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }'
}

# kernel META FOLDER: downloads the newest kernel of a flavour, unless the folder has
# one.
kernel() {
  if ! ls "$2"/linux-image-*.deb > /dev/null 2>&1; then
    [ -n "$(kernel_package "$1")" ] || update
    download "$(kernel_package "$1")" "$2"
  fi
}

download_packages() {
  kernel linux-image-cloud-amd64 out/packages
  # This kernel has the drivers of real hardware, for machines that the cloud flavour
  # cannot drive.
  kernel linux-image-amd64 out/packages/generic
  [ "$level" -ge 2 ] || return 0
  if ! ls out/packages/ignition_*.deb > /dev/null 2>&1; then
    [ -n "$(candidate ignition)" ] || update
    download ignition out/packages
  fi
  [ "$level" -ge 4 ] || return 0
  with_libraries out/packages/network-manager network-manager
  with_libraries out/packages/iscsi open-iscsi dracut-core dracut-network
  nmcli out/packages/network-manager out/packages/nmcli
  console_font out/packages/console-font
}

# console_font FOLDER: gets the font of the kernel's framebuffer console, with which the
# tests read a guest's screen.  The package is unpacked, not installed: it would change
# the console of this machine.
console_font() {
  local font=Lat15-VGA16.psf.gz
  [ ! -f "$1/$font" ] || return 0
  download console-setup-linux "$1"
  dpkg-deb --fsys-tarfile "$1"/console-setup-linux_*.deb | tar -xO "./usr/share/consolefonts/$font" > "$1/new"
  mv "$1/new" "$1/$font"
}

# with_libraries FOLDER PACKAGE...: downloads the packages, with the libraries that this
# machine lacks.  They are not installed: NetworkManager would begin to manage the
# network of this machine, open-iscsi has a service, and dracut has a hook in the
# installation of kernels.
with_libraries() {
  ! ls "$1/$2"_*.deb > /dev/null 2>&1 || return 0
  [ -n "$(candidate "$2")" ] || update
  mkdir -p "$1"
  say "downloading ${*:2}"
  local get="apt-get -qq install -y --download-only --reinstall --no-install-recommends -o Dir::Cache::archives=$PWD/$1 ${*:2}"
  # The folder is apt's cache, so apt creates a lock and a folder in it.
  $get > /dev/null || { update; $get > /dev/null; }
  rm -rf "$1/lock" "$1/partial"
}

# nmcli FROM FOLDER: unpacks nmcli and its libraries from the packages in FROM, for the
# test that lets NetworkManager read keyfiles.  nmcli needs no running NetworkManager
# for that.
nmcli() {
  local package
  [ ! -x "$2/usr/bin/nmcli" ] || return 0
  rm -rf "$2" "$2.new"
  for package in "$1"/*.deb; do dpkg-deb -x "$package" "$2.new"; done
  mv "$2.new" "$2"
}

if [ -n "$list" ]; then
  missing_packages | xargs -r -n1
  exit 0
fi
# Several targets of make may be built at once, and apt has one lock.
mkdir -p out
exec 9> out/setup.lock
flock 9
install_missing
[ -z "$download" ] || download_packages
