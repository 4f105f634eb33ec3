# The initramfs of the image: busybox, the real Ignition, and a shell script /init that
# runs the stages of Ignition. Sourced by build.sh.

# Drivers for the disks and NICs a test guest can have, and the file systems.
# Dependencies are resolved by depmod and modprobe from the package's tree.
image_modules='virtio_pci virtio_blk virtio_scsi virtio_net sd_mod nvme ext4 vfat isofs
  nls_ascii nls_utf8 nls_iso8859-1 failover net_failover 8021q bonding raid1'

# Programs of the build machine which Ignition calls, or which must be better
# than busybox's (blkid: partition labels; mount: options by name).
image_programs='/usr/sbin/blkid /usr/bin/mount /usr/bin/umount /usr/sbin/useradd /usr/sbin/usermod /usr/sbin/groupadd'

build_initramfs() {
  local root=$work/initramfs program stub
  mkdir -p "$root"/{bin,sbin,usr/{bin,sbin,lib/ignition},etc,proc,sys,dev,run,tmp,sysroot,mnt,lib,lib64}
  busybox_tree "$root"
  # Remove busybox's links, so that they never shadow the real mount(8), umount(8) and
  # blkid(8).
  rm "$root/bin/mount" "$root/bin/umount" "$root/bin/blkid" 2>/dev/null || true
  # The kernel runs /sbin/modprobe for a module that it needs. For ext4 it needs crc32c,
  # which is a module in the arm64 kernel.
  ln -s ../bin/busybox "$root/sbin/modprobe"
  for program in $image_programs; do
    # Debian 12 may still have blkid in /sbin only (not a merged /usr).
    [ -e "$system$program" ] || program=${program#/usr}
    mkdir -p "$root$(dirname "$program")"
    cp -L "$system$program" "$root$program"
    copy_libraries "$system$program" "$root"
  done
  cp "$ignition" "$root/usr/bin/ignition"
  copy_libraries "$ignition" "$root"
  [ -z "$iscsi_debs" ] || image_modules="$image_modules $iscsi_modules"
  copy_modules "$root"
  echo 'root:x:0:0:root:/:/bin/sh' > "$root/etc/passwd"
  echo 'root:x:0:' > "$root/etc/group"
  echo 'NAME="CoreOS-shaped test image"' > "$root/etc/initrd-release"
  install -m 755 "$here/initramfs-init" "$root/init"
  # Ignition calls setfiles to relabel what it writes, and udevadm to wait for udev. The
  # image has no SELinux policy, and udev only with NetworkManager, so stubs make both
  # calls succeed.
  for stub in setfiles udevadm; do
    printf '#!/bin/sh\nexit 0\n' > "$root/usr/sbin/$stub"
    chmod 755 "$root/usr/sbin/$stub"
  done
  if [ -n "$network_manager_debs" ]; then
    add_network_manager "$root"
    [ -z "$iscsi_debs" ] || add_iscsi "$root"
  else
    install -m 644 "$here/network-small" "$root/usr/lib/network"
    install -m 755 "$here/udhcpc.script" "$root/etc/udhcpc.script"
  fi
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  (cd "$root" && find . -print0 | sort -z | cpio -0o -H newc -R 0:0 --reproducible --quiet) \
    | zstd -q -9 --single-thread > "$1"
}
