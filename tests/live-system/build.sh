#!/bin/bash
# Builds the live system in which the agent is tested, in addition to its own
# ramdisk: an initramfs with Debian's systemd, udev, D-Bus and NetworkManager. As in
# a CoreOS live system, the real Ignition runs first.
#
#   build.sh --kernel-deb FILE --ignition-deb FILE [--podman] -o DIR
#
# With --podman, it can run OpenShift's agent container.
#
# The result is DIR/live.img (zstd). It needs root, for the packages' own scripts in a
# chroot, and the package archive. The build is skipped if DIR/key already has the choice
# of --podman and the digests of its scripts and of the two packages above; remove DIR/key
# to get newer versions of all other packages from the archive.
set -euo pipefail
export LC_ALL=C TZ=UTC PATH="$PATH:/usr/sbin:/sbin"

here=$(cd "$(dirname "$0")" && pwd)
kernel_deb='' ignition_deb='' podman='' out=''
while [ $# -gt 0 ]; do
  case $1 in
    --kernel-deb) kernel_deb=$2; shift 2 ;;
    --ignition-deb) ignition_deb=$2; shift 2 ;;
    --podman) podman=1; shift ;;
    -o) out=$2; shift 2 ;;
    *) sed -n '6p' "$0" >&2; exit 2 ;;
  esac
done
for file in "$kernel_deb" "$ignition_deb"; do
  [ -f "$file" ] || { echo "build.sh: no package file '$file' (tests/setup.sh downloads them)" >&2; exit 1; }
done
[ -n "$out" ] || { echo 'build.sh: -o DIR is missing' >&2; exit 2; }

. "$here/../guest.sh"
image_key() {
  echo "--podman ${podman:-0}"
  digests "$here/../guest.sh" "$here"/* "$kernel_deb" "$ignition_deb"
}
key=$(image_key)
begin_build "$key" live.img
say() { echo "live-system: $*" >&2; }

root=$work/root

# The parts of a live system: init, device manager, D-Bus, network, LVM, software RAID,
# multipath. dhcpcd is left out, because NetworkManager has a DHCP client of its own.
packages='systemd-sysv,udev,dbus,network-manager,kmod,iproute2,busybox-static,lvm2,mdadm,multipath-tools'
[ -z "$podman" ] || packages="$packages,podman,crun"
# The package sources of this machine, without those of third parties.
mirrors=()
for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
  [ ! -s "$list" ] || mirrors+=("$list")
done
say "installing $packages"
# Manuals and locales are left out: nobody reads them there, and they are large.
# unshare: mmdebstrap mounts /proc in the new root. If the build is killed, the mount
# disappears with its namespace; otherwise it would stay, and rm -r could not remove
# the folder.
unshare --mount mmdebstrap --quiet --variant=essential --include="$packages" \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
  "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" "${mirrors[@]}"

say 'copying kernel modules and Ignition'
mkdir "$work/ignition"
unpack_kernel "$kernel_deb"
dpkg-deb -x "$ignition_deb" "$work/ignition"
mkdir -p "$root/usr/lib/modules"
cp -a "$modules" "$root/usr/lib/modules/$kernel_release"
depmod -b "$root" "$kernel_release"
install -m 755 "$(find "$work/ignition" -path '*/dracut/*' -name ignition -type f)" "$root/usr/bin/ignition"

# Remove what the installation leaves: caches, and the package manager's state.
rm -rf "$root"/var/lib/apt/* "$root"/var/cache/* "$root"/var/lib/dpkg "$root"/usr/share/{doc,man,locale,zoneinfo,i18n} \
  "$root"/usr/lib/x86_64-linux-gnu/{gconv,perl-base,perl5} "$root"/usr/share/perl* "$root"/boot/*
# With this text systemd treats the boot as the first one, and applies Ignition's
# presets.
echo uninitialized > "$root/etc/machine-id"
rm -f "$root/etc/hostname" "$root/etc/resolv.conf"
# As in CoreOS, no unit starts unless it is enabled explicitly.
mkdir -p "$root/etc/systemd/system-preset"
echo 'disable *' > "$root/etc/systemd/system-preset/90-default.preset"
rm -f "$root"/etc/systemd/system/*.wants/multipathd.*
# The journal on the serial line, where the test reads it.
mkdir -p "$root/etc/systemd/journald.conf.d"
printf '[Journal]\nStorage=volatile\nForwardToConsole=yes\nTTYPath=/dev/ttyS0\nMaxLevelConsole=info\n' \
  > "$root/etc/systemd/journald.conf.d/console.conf"
# There is nobody to answer questions or to log in.
ln -sf /dev/null "$root/etc/systemd/system/systemd-firstboot.service"
ln -sf /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
rm -f "$root/etc/NetworkManager/dispatcher.d/01-ifupdown"
install -m 755 "$here/init" "$root/init"
if [ -n "$podman" ]; then
  # The root of this live system is the ramdisk itself, which has no parent to pivot
  # to. Another file system cannot be laid over it either.
  mkdir -p "$root/etc/containers"
  printf '[engine]\nno_pivot_root = true\n' > "$root/etc/containers/containers.conf"
  printf '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n' \
    > "$root/etc/containers/storage.conf"
fi

say 'packing'
(cd "$root" && find . -print0 | sort -z | cpio -0o -H newc -R 0:0 --quiet) | zstd -q -9 -T0 > "$work/live.img"
mv "$work/live.img" "$out/"
echo "$key" > "$out/key"
say "$(stat -c '%s bytes' "$out/live.img"), unpacked $(du -sm "$root" | cut -f1) MiB"
