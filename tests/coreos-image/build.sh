#!/bin/bash
# Builds the CoreOS-shaped disk image that the end-to-end tests install.
#
#   build.sh --kernel-deb FILE --ignition-deb FILE [--network-manager-debs DIR [--iscsi-debs DIR]] [--aarch64 DIR] -o DIR
#
# --aarch64 makes the image for aarch64, from a kernel and an Ignition package for
# aarch64, and from the programs and GRUB below DIR (tests/aarch64/build.sh fills it). It
# boots only under UEFI.
#
# With --network-manager-debs, NetworkManager and udev configure the network of the first
# boot (file network-manager); without it, a small script does (network-small). An image
# with NetworkManager also has mdadm, and boots from a software RAID. With --iscsi-debs
# (dracut and open-iscsi) it also boots from the iSCSI target in the firmware's table.
#
# The result is DIR/coreos.raw and its .gz, .xz and .zst forms, with SHA256SUMS. All
# binaries come from Debian packages. The disk boots under BIOS and UEFI and runs the real
# Ignition on its first boot. The build needs no loop device, no mount, no network and no
# privileges: mke2fs -d and mtools fill the file systems.
#
# The same scripts and packages give the same bytes. The build is skipped if DIR/key
# already has the digests and versions of both.
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
# Prints the digests and versions of all that the bytes of the image depend on: this
# folder, guest.sh, the packages of the arguments, and the installed packages whose files
# are in the image or whose tools make it.
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
  # The names of the unpacked packages, which contain their versions.
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
# The tests use only the image without NetworkManager in xz and zstd.
if [ -z "$network_manager_debs" ]; then
  # Use one thread: with several threads, xz divides its input, and the bytes would depend
  # on the number of processors.
  xz -T1 -1 -c "$work/coreos.raw" > "$work/coreos.raw.xz"
  zstd -q -9 --single-thread "$work/coreos.raw" -o "$work/coreos.raw.zst"
fi
(cd "$work" && sha256sum coreos.raw* > SHA256SUMS)
mv "$work"/coreos.raw* "$work/SHA256SUMS" "$out/"
echo "$key" > "$out/key"
say "$(cd "$out" && stat -c '%n %s bytes' coreos.raw* | tr '\n' ',')"
