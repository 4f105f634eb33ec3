# Functions for the builds of the tests' guests: a kernel package, busybox, and the
# programs of this machine that a guest needs.  The build.sh of each guest sources this
# file and has set $out.

# A key has a line for each input of a build: its name, and its digest or version.

# digests FILE...: prints these lines for files.  The names are without folders, so that
# a clone can be moved.
digests() {
  local file
  for file in "$@"; do echo "$(basename "$file") $(sha256sum < "$file" | cut -c1-64)"; done
}

# versions PACKAGE...: prints these lines for installed packages.
versions() { dpkg-query -W -f '${Package} ${Version}\n' "$@"; }

# changed_inputs KEY: prints the names of the inputs that differ between KEY and
# $out/key.
changed_inputs() {
  comm -3 <(sort "$out/key") <(sort <<< "$1") | awk '
    NF == 2 && !seen[$1]++ { if (++count <= 8) names = names " " $1 }
    END { print names (count > 8 ? " and " count - 8 " more" : "") }'
}

# begin_build KEY RESULT: ends the script if $out already has the RESULT of this KEY.
# Otherwise prints which inputs have changed since an earlier build, and sets $work, a
# folder that is removed at the end of the script.
begin_build() {
  mkdir -p "$out"; out=$(cd "$out" && pwd)
  if [ -e "$out/$2" ] && [ -e "$out/key" ]; then
    if [ "$(cat "$out/key")" = "$1" ]; then
      echo "$(basename "$out"): kept, its scripts, its kernel and its packages are the same" >&2
      exit 0
    fi
    echo "$(basename "$out"): building it again; changed:$(changed_inputs "$1")" >&2
  fi
  rm -f "$out/key"
  work=$(mktemp -d "$out/build.XXXXXX"); trap 'rm -rf "$work"' EXIT
}

# unpack_kernel DEB: unpacks a kernel package, and sets $kernel_release and $modules,
# the folder of its modules.
unpack_kernel() {
  mkdir "$work/kernel"
  dpkg-deb -x "$1" "$work/kernel"
  kernel_release=$(basename "$(echo "$work"/kernel/boot/vmlinuz-*)" | sed 's/^vmlinuz-//')
  # Debian 13 has the modules below /usr/lib/modules, Debian 12 below /lib/modules.
  for modules in "$work/kernel/usr/lib/modules/$kernel_release" "$work/kernel/lib/modules/$kernel_release"; do
    [ -d "$modules" ] && break
  done
}

# The root of the system from which the guest's programs come: this machine, or a folder
# into which packages of another architecture were unpacked.
system=${system:-}

# busybox_tree DIR: copies busybox to DIR, with a link for each applet. The list of
# applets comes from this machine's busybox, because that of another architecture cannot
# run here.
busybox_tree() {
  local applet busybox=$system/bin/busybox
  [ -e "$busybox" ] || busybox=$system/usr/bin/busybox
  cp "$busybox" "$1/bin/busybox"
  for applet in $(/bin/busybox --list); do
    [ "$applet" = busybox ] || ln -sf busybox "$1/bin/$applet"
  done
}

# copy_libraries PROGRAM ROOT: copies the libraries of PROGRAM that ldd prints. ldd runs
# the program's loader, so for another architecture the names are read from the program.
copy_libraries() {
  local library
  [ -z "$system" ] || { copy_foreign_libraries "$1" "$2"; return; }
  { ldd "$1" 2>/dev/null || true; } | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$2$(dirname "$library")"
    cp -L "$library" "$2$library"
  done
}

copy_foreign_libraries() {
  local library found
  { readelf -l "$1" | sed -n 's/.*interpreter: \(.*\)]$/\1/p'
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p'; } | while read -r library; do
    found=$(find "$system"/lib "$system"/usr/lib -name "$(basename "$library")" -print -quit 2> /dev/null || true)
    [ -n "$found" ] || { echo "guest: $library, which $1 needs, is not below $system" >&2; exit 1; }
    # The kernel finds the loader by this path. The loader finds the other libraries in
    # /lib.
    case $library in /*) ;; *) library=/lib/$library ;; esac
    [ ! -e "$2$library" ] || continue
    mkdir -p "$2$(dirname "$library")"
    cp -L "$found" "$2$library"
    copy_foreign_libraries "$found" "$2"
  done
}

# copy_modules ROOT: copies the modules in $image_modules and all on which they depend,
# uncompressed, and makes an index.
copy_modules() {
  local all=$work/module-tree target=$1/lib/modules/$kernel_release module file path
  mkdir -p "$all/lib/modules" "$target"
  cp -a "$modules" "$all/lib/modules/$kernel_release"
  # busybox' modprobe reads only uncompressed files.  The kernel checks the signature of
  # the uncompressed module.
  find "$all" -name '*.ko.xz' -exec xz -dq {} +
  depmod -b "$all" "$kernel_release"
  for module in $image_modules; do
    # If the module is built into the kernel, modprobe prints "builtin" instead of a
    # path.
    modprobe -d "$all" -S "$kernel_release" --show-depends "$module" 2>/dev/null \
      | awk '$1 == "insmod" { print $2 }'
  done | sort -u | while read -r file; do
    path=${file#*"/lib/modules/$kernel_release/"}
    mkdir -p "$target/$(dirname "$path")"
    cp "$file" "$target/$path"
  done
  cp "$modules"/modules.{builtin,builtin.modinfo,order} "$target/"
  depmod -b "$1" "$kernel_release"
}

# pack_ramdisk ROOT FILE: packs ROOT into FILE, reproducibly: the same tree gives the
# same bytes.
pack_ramdisk() {
  find "$1" -exec touch -h -d @1700000000 {} +
  (cd "$1" && find . -print0 | sort -z | cpio -0o -H newc -R 0:0 --reproducible --quiet) | zstd -q -9 -T0 > "$2"
}
