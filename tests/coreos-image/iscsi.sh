# A root disk on iSCSI: dracut's modules base, network, network-manager and iscsi, and
# open-iscsi, from Debian's packages. Their scripts are in the places where dracut puts
# them (the function install of each module-setup.sh). The script dracut-hooks calls them,
# because the image has no complete dracut. This file needs network-manager.sh. Sourced by
# build.sh.

# The kernel modules that the function installkernel of dracut's module iscsi lists,
# without the drivers of cards.
iscsi_modules='iscsi_tcp iscsi_ibft iscsi_boot_sysfs'

add_iscsi() {
  local root=$1 debs=$work/iscsi deb program hooks
  mkdir -p "$debs"
  for deb in "$iscsi_debs"/*.deb; do dpkg-deb -x "$deb" "$debs"; done
  for program in iscsid iscsiadm iscsi-iname; do
    add_unpacked "$(find "$debs/sbin" "$debs/usr/sbin" -name "$program" -type f 2> /dev/null)" "$root/usr/sbin/$program"
  done
  # nm-run.sh is a bash script, and busybox's modprobe lacks options that the iscsi
  # scripts use.
  cp -L /bin/bash "$root/bin/bash"
  copy_libraries /bin/bash "$root"
  cp -L /sbin/modprobe "$root/usr/sbin/modprobe"
  copy_libraries /sbin/modprobe "$root"
  install -D -m 644 "$debs/etc/iscsi/iscsid.conf" "$root/etc/iscsi/iscsid.conf"
  mkdir -p "$root"/etc/{cmdline.d,udev/rules.d} "$root/var/lib/iscsi/nodes"

  hooks=lib/dracut/hooks
  mkdir -p "$root/$hooks"/{cmdline,pre-udev,netroot} "$root/$hooks"/initqueue/{settled,online,timeout,finished}
  add_unpacked "$(find "$debs" -name dracut-util -type f)" "$root/usr/bin/dracut-util"
  ln -s dracut-util "$root/usr/bin/dracut-getarg"
  ln -s dracut-util "$root/usr/bin/dracut-getargs"
  dracut_script dracut-lib.sh lib/dracut-lib.sh
  dracut_script dracut-dev-lib.sh lib/dracut-dev-lib.sh
  dracut_script initqueue.sh sbin/initqueue
  dracut_script fs-lib.sh lib/fs-lib.sh
  dracut_script net-lib.sh lib/net-lib.sh
  dracut_script netroot.sh sbin/netroot
  dracut_script ifname-genrules.sh "$hooks/pre-udev/50-ifname-genrules.sh"
  dracut_script dhcp-root.sh "$hooks/cmdline/91-dhcp-root.sh"
  dracut_script nm-lib.sh lib/nm-lib.sh
  dracut_script nm-config.sh "$hooks/cmdline/99-nm-config.sh"
  dracut_script nm-run.sh "$hooks/initqueue/settled/99-nm-run.sh"
  dracut_script parse-iscsiroot.sh "$hooks/cmdline/90-parse-iscsiroot.sh"
  dracut_script iscsiroot.sh sbin/iscsiroot

  install -m 755 "$here/dracut-hooks" "$root/usr/lib/dracut-hooks"
  cat "$here/network-iscsi" >> "$root/usr/lib/network"
}

# dracut_script NAME PATH: copies a script of dracut to PATH in the initramfs. The
# versions of dracut have the same scripts, but not in the same modules. The module
# connman has a netroot.sh of its own.
dracut_script() {
  install -D -m 755 "$(find "$debs/usr/lib/dracut/modules.d" -name "$1" ! -path '*connman*')" "$root/$2"
}
