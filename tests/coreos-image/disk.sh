# The disk: the numbers, labels and types of the partitions, the GUID of the disk and the
# UUIDs of the file systems are those of CoreOS, the sizes and the GUIDs of the partitions
# are not. Sourced by build.sh.

# The size of each partition in MiB, in their order. All partitions are aligned to 1 MiB.
bios_boot_size=1 esp_size=16 boot_size=80 root_size=32

# level_times IMAGE TREE: sets all times in IMAGE to SOURCE_DATE_EPOCH, because mke2fs -d
# copies the change times of the files in TREE.
level_times() {
  local path field
  (cd "$2" && find . | sed 's/^\.//; s/^$/\//') | while IFS= read -r path; do
    for field in atime ctime mtime crtime; do
      echo "sif \"$path\" $field @$SOURCE_DATE_EPOCH"
    done
    for field in atime_extra ctime_extra crtime_extra; do
      echo "sif \"$path\" $field 0"
    done
  done > "$work/level.cmd"
  debugfs -w -f "$work/level.cmd" "$1" > /dev/null 2>&1
}

# ext4_image FILE MIB LABEL UUID TREE: makes a file system of MIB MiB with the files of
# TREE. It lacks two features that are defaults of newer e2fsprogs, because GRUB 2.06 and
# the fsck of a system with kernel 6.1 may not know them.
ext4_image() {
  find "$5" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  truncate -s "$2M" "$1"
  mke2fs -q -t ext4 -O '^metadata_csum_seed,^orphan_file' -L "$3" -U "$4" \
    -E "root_owner=0:0,hash_seed=$4" -d "$5" "$1"
  level_times "$1" "$5"
}

esp_image() {
  truncate -s ${esp_size}M "$1"
  mkfs.vfat --invariant -i 7B7795E7 -n EFI-SYSTEM "$1" > /dev/null
  # The file that shim has on RHCOS: it describes the boot entry to create, in UTF-16 with
  # a byte order mark.
  printf '\xff\xfe' > "$work/BOOT$EFI.CSV"
  printf 'shim%s.efi,Red Hat Enterprise Linux,,This is the boot entry for Red Hat Enterprise Linux\n' "$efi" \
    | iconv -f UTF-8 -t UTF-16LE >> "$work/BOOT$EFI.CSV"
  touch -d "@$SOURCE_DATE_EPOCH" "$work/grub.efi" "$work/BOOT$EFI.CSV" "$work/esp-grub.cfg"
  mmd -i "$1" ::/EFI ::/EFI/BOOT ::/EFI/redhat
  # GRUB is also in the place of shim, because shim would only load grub$efi.efi.
  mcopy -m -i "$1" "$work/grub.efi" ::/EFI/BOOT/BOOT$EFI.EFI
  mcopy -m -i "$1" "$work/grub.efi" "::/EFI/redhat/shim$efi.efi"
  mcopy -m -i "$1" "$work/grub.efi" "::/EFI/redhat/grub$efi.efi"
  mcopy -m -i "$1" "$work/BOOT$EFI.CSV" ::/EFI/redhat/BOOT$EFI.CSV
  mcopy -m -i "$1" "$work/esp-grub.cfg" ::/EFI/redhat/grub.cfg
}

# little_endian_64 NUMBER
little_endian_64() {
  local value=$1 text='' i
  for i in 1 2 3 4 5 6 7 8; do
    text="$text\\x$(printf %02x $((value & 255)))"
    value=$((value >> 8))
  done
  printf "$text"
}

# patch FILE OFFSET: writes standard input into FILE at OFFSET, in bytes.
patch() { dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# install_bios_grub DISK FIRST-SECTOR: writes what grub-bios-setup would write, but needs
# no device: boot code into the MBR, the core image into BIOS-BOOT. Offsets are those of
# GRUB's boot.S and diskboot.S.
install_bios_grub() {
  local disk=$1 first=$2
  [ "$(stat -c %s "$work/core.img")" -le $((bios_boot_size * 1024 * 1024)) ]
  cp /usr/lib/grub/i386-pc/boot.img "$work/mbr"
  little_endian_64 "$first" | patch "$work/mbr" 92       # first sector of the core
  printf '\x90\x90' | patch "$work/mbr" 102              # no jump: trust the BIOS' drive number
  little_endian_64 $((first + 1)) | patch "$work/core.img" 500 # its block list: the rest
  dd if="$work/mbr" of="$disk" bs=440 count=1 conv=notrunc status=none
  dd if="$work/core.img" of="$disk" bs=512 seek="$first" conv=notrunc status=none
}

build_disk() {
  local disk=$1 mib=2048 esp boot root end
  esp=$(((1 + bios_boot_size) * mib)); boot=$((esp + esp_size * mib))
  root=$((boot + boot_size * mib)); end=$((root + root_size * mib))
  cp "$here/esp-grub.cfg" "$work/esp-grub.cfg"
  esp_image "$work/esp.img"
  ext4_image "$work/boot.img" $boot_size boot 96d15588-3596-4b3c-adca-a2ff7279ea63 "$work/boot"
  ext4_image "$work/root.img" $root_size root 910678ff-f77e-4a7d-8d53-86f2ac47a823 "$work/root"
  truncate -s $((end * 512 + 1024 * 1024)) "$disk"
  # On aarch64 the first partition is a reserved one.
  local first=BIOS-BOOT:21686148-6449-6E6F-744E-656564454649
  [ -z "$system" ] || first=reserved:8DA63339-0007-60C0-C436-083AC8230908
  # By this disk GUID, CoreOS detects a disk that was never booted.
  sgdisk -a 2048 -U 00000000-0000-4000-a000-000000000001 \
    -n 1:$mib:$((esp - 1)) -c 1:${first%%:*} -t 1:${first#*:} -u 1:11111111-0000-4000-a000-000000000001 \
    -n 2:$esp:$((boot - 1)) -c 2:EFI-SYSTEM -t 2:C12A7328-F81F-11D2-BA4B-00A0C93EC93B -u 2:11111111-0000-4000-a000-000000000002 \
    -n 3:$boot:$((root - 1)) -c 3:boot -t 3:0FC63DAF-8483-4772-8E79-3D69D8477DE4 -u 3:11111111-0000-4000-a000-000000000003 \
    -n 4:$root:$((end - 1)) -c 4:root -t 4:0FC63DAF-8483-4772-8E79-3D69D8477DE4 -u 4:11111111-0000-4000-a000-000000000004 \
    "$disk" > /dev/null
  dd if="$work/esp.img" of="$disk" bs=1M seek=$((esp / mib)) conv=notrunc,sparse status=none
  dd if="$work/boot.img" of="$disk" bs=1M seek=$((boot / mib)) conv=notrunc,sparse status=none
  dd if="$work/root.img" of="$disk" bs=1M seek=$((root / mib)) conv=notrunc,sparse status=none
  [ -n "$system" ] || install_bios_grub "$disk" $mib
}
