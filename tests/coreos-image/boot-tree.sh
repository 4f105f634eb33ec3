# Makes the file system `boot` with the layout of CoreOS, and GRUB's core images for BIOS
# and UEFI. Sourced by build.sh.

# The modules in GRUB's core image: those that find and read /boot. The `linux` command
# stays outside so that grub.cfg can define a function of that name (see there).
grub_core='part_gpt part_msdos ext2 fat search search_label search_fs_uuid search_fs_file normal
  configfile test echo serial terminal terminfo loadenv regexp minicmd ls cat reboot halt sleep'

# grub_closure DIR MODULE..: prints the modules and their dependencies, from moddep.lst.
grub_closure() {
  local list=$1/moddep.lst; shift
  awk -v want="$*" '
    { name = $1; sub(":", "", name); $1 = ""; needs[name] = $0 }
    END {
      count = split(want, queue, " ")
      for (head = 1; head <= count; head++) {
        if (seen[queue[head]]++) continue
        print queue[head]
        added = split(needs[queue[head]], next_ones, " ")
        for (i = 1; i <= added; i++) queue[++count] = next_ones[i]
      }
    }' "$list"
}

build_boot_tree() {
  local boot=$1 platform source module extra
  mkdir -p "$boot"/{ostree/$deployment,loader.1/entries,grub2,coreos,efi}
  ln -s loader.1 "$boot/loader"
  ln -s . "$boot/boot"
  chmod 700 "$boot/grub2"
  cp "$work/kernel/boot/vmlinuz-$kernel_release" "$boot/ostree/$deployment/"
  cp "$work/initramfs.img" "$boot/ostree/$deployment/initramfs-$kernel_release.img"
  : > "$boot/ignition.firstboot"
  cat > "$boot/loader.1/entries/ostree-1-rhcos.conf" <<ENTRY
title CoreOS-shaped test image 1.0 (ostree:0)
version 1
options \$ignition_firstboot rw ostree=/ostree/boot.1/rhcos/${deployment#rhcos-}/0 ignition.platform.id=metal console=tty0 console=$serial,115200n8 no_timer_check
linux /ostree/$deployment/vmlinuz-$kernel_release
initrd /ostree/$deployment/initramfs-$kernel_release.img
ENTRY
  sed "s/ttyS0/$serial/" "$here/platforms.json" > "$boot/coreos/platforms.json"
  cp "$here/grub.cfg" "$boot/grub2/grub.cfg"
  if [ -n "$system" ]; then
    # On aarch64, EFI's console is on the serial port, and GRUB has no driver for its
    # PL011.
    sed -i 's/^serial --speed.*//; s/^\(terminal_[a-z]*\) serial/\1 console/' "$boot/grub2/grub.cfg"
    sed -i 's/"serial --speed=115200", //; s/ serial console"/ console"/g; s/ serial"/ console"/g' "$boot/coreos/platforms.json"
    grub_core=$(echo "$grub_core" | sed 's/ serial / /')
  fi
  for platform in $grub_platforms; do
    source=$system/usr/lib/grub/$platform
    mkdir "$boot/grub2/$platform"
    case $platform in
      i386-pc) extra='' ;;
      arm64-efi) extra='all_video efi_gop gfxterm' ;;
      *) extra='all_video efi_gop efi_uga gfxterm' ;;
    esac
    for module in $(grub_closure "$source" linux $extra); do
      cp "$source/$module.mod" "$boot/grub2/$platform/"
    done
  done
  [ -n "$system" ] ||
    grub-mkimage -d /usr/lib/grub/i386-pc -O i386-pc -p '(,gpt3)/grub2' -o "$work/core.img" biosdisk $grub_core
  platform=${grub_platforms#i386-pc }
  # CoreOS' GRUB has mdraid1x, too, because its disk may be a software RAID.
  grub-mkimage -d "$system/usr/lib/grub/$platform" -O "$platform" -p /EFI/redhat -o "$work/grub.efi" \
    $grub_core mdraid1x
}
