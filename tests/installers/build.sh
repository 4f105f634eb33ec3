#!/bin/bash
# Builds the ramdisk in which coreos-installer and landfall-agent install, each onto
# disks of its own: the smallest live system in which coreos-installer works, with udev,
# lsblk and blkid of this machine.
#
#   build.sh --kernel-deb FILE --coreos-installer FILE -o DIR
#
# The result is DIR/initrd.img.  It boots with the kernel of the same package; the test
# appends a second archive with the agent and the script to run.
set -euo pipefail
export LC_ALL=C TZ=UTC PATH="$PATH:/usr/sbin:/sbin"

here=$(cd "$(dirname "$0")" && pwd)
kernel_deb='' coreos_installer='' out=''
while [ $# -gt 0 ]; do
  case $1 in
    --kernel-deb) kernel_deb=$2; shift 2 ;;
    --coreos-installer) coreos_installer=$2; shift 2 ;;
    -o) out=$2; shift 2 ;;
    *) sed -n '6p' "$0" >&2; exit 2 ;;
  esac
done
[ -f "$kernel_deb" ] || { echo "build.sh: no package file '$kernel_deb' (tests/setup.sh downloads it)" >&2; exit 1; }
[ -x "$coreos_installer" ] || { echo "build.sh: no program '$coreos_installer' (tests/peers.sh builds it)" >&2; exit 1; }
[ -n "$out" ] || { echo 'build.sh: -o DIR is missing' >&2; exit 2; }

. "$here/../guest.sh"
key=$(digests "$here/build.sh" "$here/init" "$here/../guest.sh" "$kernel_deb" "$coreos_installer"
  versions busybox-static cpio zstd udev util-linux kmod)
begin_build "$key" initrd.img
unpack_kernel "$kernel_deb"

# shellcheck disable=SC2034  # for copy_modules
image_modules='virtio_pci virtio_net virtio_blk af_packet ext4'

root=$work/root
mkdir -p "$root"/{bin,etc,proc,sys,dev,run,tmp,lib,lib64} "$root"/usr/{bin,sbin,lib/udev/rules.d,lib/systemd}
busybox_tree "$root"
# busybox' lsblk and blkid lack columns and options that coreos-installer uses.
rm -f "$root/bin/lsblk" "$root/bin/blkid"
for program in lsblk blkid udevadm; do
  path=$(command -v "$program")
  install "$(realpath "$path")" "$root/usr/bin/$program"
  copy_libraries "$path" "$root"
done
install "$coreos_installer" "$root/usr/bin/coreos-installer"
copy_libraries "$coreos_installer" "$root"
ln -s /usr/bin/udevadm "$root/usr/lib/systemd/systemd-udevd"
for rule in 50-udev-default 60-block 60-persistent-storage; do
  install -m 644 "/usr/lib/udev/rules.d/$rule.rules" "$root/usr/lib/udev/rules.d/"
done
copy_modules "$root"
echo 'root:x:0:0:root:/:/bin/sh' > "$root/etc/passwd"
echo 'root:x:0:' > "$root/etc/group"
install -m 755 "$here/init" "$root/init"
pack_ramdisk "$root" "$work/initrd.img"
mv "$work/initrd.img" "$out/"
echo "$key" > "$out/key"
