#!/bin/bash
# Builds the CoreOS-shaped disk image that the end-to-end tests install.
#
#   build.sh --kernel-deb FILE --ignition-deb FILE [--network-manager-debs DIR [--iscsi-debs DIR]] [--aarch64 DIR] -o DIR
#
# --aarch64 makes the image for aarch64, of a kernel and an Ignition of that architecture, and
# of the programs and of GRUB below DIR (tests/aarch64/build.sh fills it). It boots under UEFI.
#
# With NetworkManager's packages the first boot's network is made by it and by
# udev (network-manager), else by a small script (network-small). Such an image
# also has mdadm, and starts from a software RAID.  With dracut's and open-iscsi's
# packages, too, it starts from the iSCSI target in the firmware's table.
#
# The result is DIR/coreos.raw and its .gz, .xz and .zst forms, with SHA256SUMS.
# Everything comes out of Debian packages; the disk boots under BIOS and UEFI
# and runs the real Ignition on its first boot.  No loop device, no mount, no
# network, no privilege: the file systems are filled by mke2fs -d and mtools.
#
# The same recipe and packages give the same bytes; a build is skipped when
# DIR/key already has their digests and versions.
set -euo pipefail
export LC_ALL=C TZ=UTC PATH="$PATH:/usr/sbin:/sbin"

here=$(cd "$(dirname "$0")" && pwd)
kernel_deb='' ignition_deb='' network_manager_debs='' iscsi_debs='' system='' out=''
while [ $# -gt 0 ]; do
  case $1 in
    --kernel-deb) kernel_deb=$2; shift 2 ;;
    --ignition-deb) ignition_deb=$2; shift 2 ;;
    --network-manager-debs) network_manager_debs=$2; shift 2 ;;
    --iscsi-debs) iscsi_debs=$2; shift 2 ;;
    --aarch64) system=$(cd "$2" && pwd); shift 2 ;;
    -o) out=$2; shift 2 ;;
    *) sed -n '4p' "$0" >&2; exit 2 ;;
  esac
done
for file in "$kernel_deb" "$ignition_deb"; do
  [ -f "$file" ] || { echo "build.sh: no package file '$file' (tests/setup.sh downloads them)" >&2; exit 1; }
done
if [ -n "$network_manager_debs" ]; then
  ls "$network_manager_debs"/network-manager_*.deb > /dev/null || exit 1
fi
if [ -n "$iscsi_debs" ]; then
  [ -n "$network_manager_debs" ] || { echo 'build.sh: --iscsi-debs needs --network-manager-debs' >&2; exit 2; }
  ls "$iscsi_debs"/open-iscsi_*.deb "$iscsi_debs"/dracut-network_*.deb > /dev/null || exit 1
fi
[ -n "$out" ] || { echo 'build.sh: -o DIR is missing' >&2; exit 2; }

. "$here/../guest.sh"
# What decides the bytes: this folder and what all guests share, the packages
# given, and the packages whose files are copied into the image or whose tools
# lay it out.
image_key() {
  digests "$here/../guest.sh" "$here"/* "$kernel_deb" "$ignition_deb"
  if [ -n "$network_manager_debs" ]; then
    digests "$network_manager_debs"/*.deb
    versions udev mdadm libglib2.0-0* libgnutls30* libcurl3*-gnutls
  fi
  if [ -n "$iscsi_debs" ]; then
    digests "$iscsi_debs"/*.deb
    versions bash libssl3*
  fi
  # The names of files, which have the versions in them.
  if [ -n "$system" ]; then sed 's/_/ /' "$system/packages"; fi
  versions busybox-static grub-pc-bin grub-efi-amd64-bin \
    grub-common e2fsprogs dosfstools mtools gdisk passwd util-linux mount libc6 cpio zstd xz-utils gzip kmod
}
key=$(image_key)
begin_build "$key" coreos.raw

export SOURCE_DATE_EPOCH=1700000000 E2FSPROGS_FAKE_TIME=1700000000
say() { echo "coreos-image: $*" >&2; }

mkdir "$work/ignition"
unpack_kernel "$kernel_deb"
dpkg-deb -x "$ignition_deb" "$work/ignition"
ignition=$(find "$work/ignition" -path '*/dracut/*' -name ignition -type f)
say "kernel $kernel_release, $(basename "$ignition_deb")"

# What differs between the architectures: the names of EFI programs, GRUB's platforms, the
# serial console.
if [ -n "$system" ]; then
  efi=aa64 EFI=AA64 grub_platforms=arm64-efi serial=ttyAMA0
else
  efi=x64 EFI=X64 grub_platforms='i386-pc x86_64-efi' serial=ttyS0
fi

# The name of the deployment; on a real node ostree computes it from the tree.
deployment=rhcos-0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9

. "$here/initramfs.sh"
. "$here/network-manager.sh"
. "$here/iscsi.sh"
. "$here/boot-tree.sh"
. "$here/root-tree.sh"
. "$here/disk.sh"

build_initramfs "$work/initramfs.img"
build_boot_tree "$work/boot"
build_root_tree "$work/root"
build_disk "$work/coreos.raw"

say 'compressing'
gzip -n -6 -c "$work/coreos.raw" > "$work/coreos.raw.gz"
# The tests of NetworkManager are not about compression.
if [ -z "$network_manager_debs" ]; then
  # One thread: xz splits its input by the number of threads, the bytes must not
  # depend on the machine.
  xz -T1 -1 -c "$work/coreos.raw" > "$work/coreos.raw.xz"
  zstd -q -9 --single-thread "$work/coreos.raw" -o "$work/coreos.raw.zst"
fi
(cd "$work" && sha256sum coreos.raw* > SHA256SUMS)
mv "$work"/coreos.raw* "$work/SHA256SUMS" "$out/"
echo "$key" > "$out/key"
say "$(cd "$out" && stat -c '%n %s bytes' coreos.raw* | tr '\n' ',')"
