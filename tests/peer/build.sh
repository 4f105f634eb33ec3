#!/bin/bash
# Builds the ramdisk of the peer: a guest that is the switch at the far end of the
# host's cables, with VLANs, bonds and LACP, which a build machine's own kernel may
# lack; or that is the storage at the far end (NVMe/TCP).
#
#   build.sh --kernel-deb FILE -o DIR
#
# The result is DIR/initrd.img: busybox, a few modules, and a shell that runs commands
# from the serial console.  It boots with the kernel of the same package.
set -euo pipefail
export LC_ALL=C TZ=UTC PATH="$PATH:/usr/sbin:/sbin"

here=$(cd "$(dirname "$0")" && pwd)
kernel_deb='' out=''
while [ $# -gt 0 ]; do
  case $1 in
    --kernel-deb) kernel_deb=$2; shift 2 ;;
    -o) out=$2; shift 2 ;;
    *) sed -n '6p' "$0" >&2; exit 2 ;;
  esac
done
[ -f "$kernel_deb" ] || { echo "build.sh: no package file '$kernel_deb' (tests/setup.sh downloads it)" >&2; exit 1; }
[ -n "$out" ] || { echo 'build.sh: -o DIR is missing' >&2; exit 2; }

. "$here/../guest.sh"
key=$(digests "$here/build.sh" "$here/init" "$here/../guest.sh" "$kernel_deb"
  versions busybox-static cpio zstd kmod)
begin_build "$key" initrd.img
unpack_kernel "$kernel_deb"

# shellcheck disable=SC2034  # for copy_modules
image_modules='virtio_pci virtio_net virtio_blk af_packet 8021q bonding bridge nvmet_tcp'

root=$work/root
mkdir -p "$root"/{bin,etc,proc,sys,dev,run,tmp,lib}
busybox_tree "$root"
copy_modules "$root"
install -m 755 "$here/init" "$root/init"
pack_ramdisk "$root" "$work/initrd.img"
mv "$work/initrd.img" "$out/"
echo "$key" > "$out/key"
