# What the guests of the tests are built of: a kernel package, busybox, and what
# of this machine they need.  Sourced by the build.sh of each, which has set $out.

# A key has a line for each input of a build: its name, and its digest or version.

# digests FILE...: these lines for files.  Without folders, so that a clone can move.
digests() {
  local file
  for file in "$@"; do echo "$(basename "$file") $(sha256sum < "$file" | cut -c1-64)"; done
}

# versions PACKAGE...: these lines for installed packages.
versions() { dpkg-query -W -f '${Package} ${Version}\n' "$@"; }

# changed_inputs KEY: the names of the inputs that differ from those in $out/key.
changed_inputs() {
  comm -3 <(sort "$out/key") <(sort <<< "$1") | awk '
    NF == 2 && !seen[$1]++ { if (++count <= 8) names = names " " $1 }
    END { print names (count > 8 ? " and " count - 8 " more" : "") }'
}

# begin_build KEY RESULT: ends the script if $out has the RESULT of this KEY
# already; otherwise says which inputs have changed since an earlier build.  Sets
# $work, a folder that goes with the script.
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

# unpack_kernel DEB: sets $kernel_release, and $modules to their folder.
unpack_kernel() {
  mkdir "$work/kernel"
  dpkg-deb -x "$1" "$work/kernel"
  kernel_release=$(basename "$(echo "$work"/kernel/boot/vmlinuz-*)" | sed 's/^vmlinuz-//')
  # Debian 13 installs below /usr/lib/modules, Debian 12 below /lib/modules.
  for modules in "$work/kernel/usr/lib/modules/$kernel_release" "$work/kernel/lib/modules/$kernel_release"; do
    [ -d "$modules" ] && break
  done
}

# Where the guest's programs come from: this machine, or a folder into which packages of
# another architecture were unpacked.
system=${system:-}

# busybox_tree DIR: busybox with a link for each applet. The applets are those of this
# machine's busybox: it can run.
busybox_tree() {
  local applet busybox=$system/bin/busybox
  [ -e "$busybox" ] || busybox=$system/usr/bin/busybox
  cp "$busybox" "$1/bin/busybox"
  for applet in $(/bin/busybox --list); do
    [ "$applet" = busybox ] || ln -sf busybox "$1/bin/$applet"
  done
}

# copy_libraries PROGRAM ROOT: the libraries that ldd names. It runs the program's loader; for
# another architecture the names are in the program.
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
    # The loader is looked for by its path, and it searches /lib.
    case $library in /*) ;; *) library=/lib/$library ;; esac
    [ ! -e "$2$library" ] || continue
    mkdir -p "$2$(dirname "$library")"
    cp -L "$found" "$2$library"
    copy_foreign_libraries "$found" "$2"
  done
}

# copy_modules ROOT: the closure of $image_modules, uncompressed, with an index.
copy_modules() {
  local all=$work/module-tree target=$1/lib/modules/$kernel_release module file path
  mkdir -p "$all/lib/modules" "$target"
  cp -a "$modules" "$all/lib/modules/$kernel_release"
  # busybox' modprobe reads plain files only; the kernel's signature check does
  # not depend on the outer compression.
  find "$all" -name '*.ko.xz' -exec xz -dq {} +
  depmod -b "$all" "$kernel_release"
  for module in $image_modules; do
    # Built into some kernels: modprobe then prints "builtin" instead of a path.
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

# pack_ramdisk ROOT FILE: the same tree gives the same bytes.
pack_ramdisk() {
  find "$1" -exec touch -h -d @1700000000 {} +
  (cd "$1" && find . -print0 | sort -z | cpio -0o -H newc -R 0:0 --reproducible --quiet) | zstd -q -9 -T0 > "$2"
}
