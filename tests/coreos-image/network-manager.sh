# Debian's NetworkManager, udev and mdadm in the image's initramfs, as dracut's modules
# put them there (modules.d/35network-manager, 90mdraid): without D-Bus.  Sourced by
# build.sh.

# The udev rules that name network devices, make the links in /dev/disk, and load drivers
# by modalias.
udev_rules='50-udev-default 60-block 60-persistent-storage 63-md-raid-arrays 75-net-description 80-drivers 80-net-setup-link'

add_network_manager() {
  local root=$1 debs=$work/network-manager deb rule program
  mkdir -p "$debs" "$root"/{var/lib,etc/NetworkManager,usr/lib}/NetworkManager "$root"/usr/lib/udev/rules.d \
    "$root"/usr/lib/systemd/network
  for deb in "$network_manager_debs"/*.deb; do dpkg-deb -x "$deb" "$debs"; done
  # Debian 12 has these programs in usr/lib/NetworkManager, Debian 13 in usr/libexec.
  for program in NetworkManager nm-initrd-generator nm-daemon-helper; do
    program=$(cd "$debs" && find usr -type f -perm -u+x -name "$program")
    add_unpacked "$debs/$program" "$root/$program"
  done
  # As in dracut: NetworkManager leaves a NIC without settings unchanged.
  printf '[main]\nno-auto-default=*\nplugins=keyfile\n\n[logging]\nlevel=INFO\n' > "$root/etc/NetworkManager/NetworkManager.conf"
  rm "$root/usr/sbin/udevadm"
  install -D /usr/bin/udevadm "$root/usr/bin/udevadm"
  copy_libraries /usr/bin/udevadm "$root"
  ln -s /usr/bin/udevadm "$root/usr/lib/systemd/systemd-udevd"
  for rule in $udev_rules; do
    install -m 644 "/usr/lib/udev/rules.d/$rule.rules" "$root/usr/lib/udev/rules.d/"
  done
  for program in ata_id scsi_id; do
    install "/usr/lib/udev/$program" "$root/usr/lib/udev/"
    copy_libraries "/usr/lib/udev/$program" "$root"
  done
  # Put mdadm into /sbin, because its udev rules call /sbin/mdadm in any Debian version.
  install /sbin/mdadm "$root/sbin/mdadm"
  copy_libraries /sbin/mdadm "$root"
  install -m 644 /usr/lib/systemd/network/99-default.link "$root/usr/lib/systemd/network/"
  # The kernel requests the modules rtnl-link-bond and rtnl-link-vlan through
  # /sbin/modprobe. The option is systemd's (modprobe.d/systemd.conf): without it the
  # driver makes a bond0 of its own before NetworkManager can.
  ln -sf ../bin/busybox "$root/sbin/modprobe"
  mkdir -p "$root/etc/modprobe.d"
  echo 'options bonding max_bonds=0' > "$root/etc/modprobe.d/systemd.conf"
  install -m 644 "$here/network-manager" "$root/usr/lib/network"
}

# add_unpacked FROM TO: copies a program of the packages in $debs, and its libraries.
# Libraries from these packages go where the dynamic loader looks for them, and not below
# the path of $debs, which differs with each build.
add_unpacked() {
  local libraries=$work/libraries
  install -D "$1" "$2"
  mkdir "$libraries"
  LD_LIBRARY_PATH=$debs/usr/lib/x86_64-linux-gnu copy_libraries "$1" "$libraries"
  if [ -d "$libraries$debs" ]; then
    cp -a "$libraries$debs/." "$root/"
    rm -rf "${libraries:?}/${debs#/}"
  fi
  find "$libraries" -type d -empty -delete
  [ ! -d "$libraries" ] || cp -a "$libraries/." "$root/"
  rm -rf "$libraries"
}
