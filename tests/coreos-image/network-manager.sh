# Debian's NetworkManager, udev and mdadm in the image's initramfs, as dracut's modules
# put them there (modules.d/35network-manager, 90mdraid): without D-Bus.  Sourced by
# build.sh.

# The rules that name network devices and link disks, and drivers by modalias.
udev_rules='50-udev-default 60-block 60-persistent-storage 63-md-raid-arrays 75-net-description 80-drivers 80-net-setup-link'

add_network_manager() {
  local root=$1 debs=$work/network-manager deb rule program
  mkdir -p "$debs" "$root"/{var/lib,etc/NetworkManager,usr/lib}/NetworkManager "$root"/usr/lib/udev/rules.d \
    "$root"/usr/lib/systemd/network
  for deb in "$network_manager_debs"/*.deb; do dpkg-deb -x "$deb" "$debs"; done
  # Debian 12 has them in usr/lib/NetworkManager, Debian 13 in usr/libexec.
  for program in NetworkManager nm-initrd-generator nm-daemon-helper; do
    program=$(cd "$debs" && find usr -type f -perm -u+x -name "$program")
    install -D "$debs/$program" "$root/$program"
    LD_LIBRARY_PATH=$debs/usr/lib/x86_64-linux-gnu copy_libraries "$debs/$program" "$root"
  done
  # Where the loader looks for them, and not below the folder they came out of.
  if [ -d "$root$debs" ]; then
    cp -a "$root$debs/." "$root/"
    rm -rf "${root:?}/${debs#/}"
  fi
  # As dracut has it: a NIC that nothing was said of is left alone.
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
  # Debian 12 has it in /sbin, where its rules call it in any version.
  install /sbin/mdadm "$root/sbin/mdadm"
  copy_libraries /sbin/mdadm "$root"
  install -m 644 /usr/lib/systemd/network/99-default.link "$root/usr/lib/systemd/network/"
  # The kernel asks for rtnl-link-bond and rtnl-link-vlan here.  The option is
  # systemd's (modprobe.d/systemd.conf): without it the driver makes a bond0 of
  # its own before NetworkManager can.
  ln -sf ../bin/busybox "$root/sbin/modprobe"
  mkdir -p "$root/etc/modprobe.d"
  echo 'options bonding max_bonds=0' > "$root/etc/modprobe.d/systemd.conf"
  install -m 644 "$here/network-manager" "$root/usr/lib/network"
}
