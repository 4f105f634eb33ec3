#!/bin/bash
# Builds the ramdisk of the peer: a guest that is the switch at the far end of
# the host's cables, for what a build machine's own kernel may not have (VLANs,
# bonds, LACP).
#
#   build.sh --kernel-deb FILE -o DIR
#
# The result is DIR/initrd.img: busybox, a few modules, and a shell that obeys
# the serial console.  It boots with the kernel of the same package.
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

recipe="$here/../coreos-image/initramfs.sh"
key=$({ sha256sum "$here/build.sh" "$here/init" "$recipe" "$kernel_deb"
  dpkg-query -W -f '${Package} ${Version}\n' busybox-static cpio zstd; } | sha256sum | cut -c1-64)
mkdir -p "$out"; out=$(cd "$out" && pwd)
if [ "$(cat "$out/key" 2> /dev/null)" = "$key" ]; then exit 0; fi
rm -f "$out/key"

work=$(mktemp -d "$out/build.XXXXXX"); trap 'rm -rf "$work"' EXIT
mkdir "$work/kernel"
dpkg-deb -x "$kernel_deb" "$work/kernel"
kernel_release=$(basename "$(echo "$work"/kernel/boot/vmlinuz-*)" | sed 's/^vmlinuz-//')
# Debian 13 installs below /usr/lib/modules, Debian 12 below /lib/modules.
for modules in "$work/kernel/usr/lib/modules/$kernel_release" "$work/kernel/lib/modules/$kernel_release"; do
  [ -d "$modules" ] && break
done

# busybox_tree and copy_modules, which takes the list from $image_modules.
. "$recipe"
# shellcheck disable=SC2034
image_modules='virtio_pci virtio_net af_packet 8021q bonding bridge'

root=$work/root
mkdir -p "$root"/{bin,etc,proc,sys,dev,run,tmp,lib}
busybox_tree "$root"
copy_modules "$root"
install -m 755 "$here/init" "$root/init"
find "$root" -exec touch -h -d @1700000000 {} +
(cd "$root" && find . -print0 | sort -z | cpio -0o -H newc -R 0:0 --reproducible --quiet) \
  | zstd -q -9 --single-thread > "$work/initrd.img"
mv "$work/initrd.img" "$out/"
echo "$key" > "$out/key"
