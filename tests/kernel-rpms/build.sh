#!/bin/bash
# Makes the RPM packages of a RHEL-like kernel from Debian's kernel: kernel-core,
# kernel-modules-core and kernel-modules, with the files and the dependencies of RHEL's
# packages. The tests have no source of RHEL's own packages. The modules keep Debian's
# signatures and are compressed as .ko.zst (drivers/net) and .ko.xz (all others), which
# Debian 12's kernel cannot decompress, so init must.
#
#   build.sh --kernel-deb FILE -o DIR
#
# The result is DIR/kernel-*.rpm. It needs rpmbuild (Debian's package rpm).
set -euo pipefail
export LC_ALL=C TZ=UTC

kernel_deb='' out=''
while [ $# -gt 0 ]; do
  case $1 in
    --kernel-deb) kernel_deb=$2; shift 2 ;;
    -o) out=$2; shift 2 ;;
    *) sed -n '8p' "$0" >&2; exit 2 ;;
  esac
done
[ -f "$kernel_deb" ] || { echo "build.sh: no package file '$kernel_deb' (tests/setup.sh downloads it)" >&2; exit 1; }
[ -n "$out" ] || { echo 'build.sh: -o DIR is missing' >&2; exit 2; }

mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dpkg-deb -x "$kernel_deb" "$work/deb"
release=$(basename "$work"/deb/lib/modules/*)

# As in RHEL's kernel-core, the image and the config are next to the modules.
tree=$work/tree
modules=$tree/lib/modules/$release
mkdir -p "$tree/lib/modules"
mv "$work/deb/lib/modules/$release" "$modules"
rm -f "$modules/build" "$modules/source"
mv "$work/deb/boot/vmlinuz-$release" "$modules/vmlinuz"
mv "$work/deb/boot/config-$release" "$modules/config"
find "$modules/kernel/drivers/net" -name '*.ko' -print0 | xargs -0 -r -P "$(nproc)" -n 16 zstd -q -3 --rm
find "$modules/kernel" -name '*.ko' -print0 | xargs -0 -r -P "$(nproc)" -n 16 xz -1 --check=crc32

(cd "$tree" && find "lib/modules/$release" -maxdepth 1 -type f) | sed 's,^,/,' > "$work/core"
(cd "$tree" && find "lib/modules/$release/kernel" -type f -not -path '*/drivers/net/*') | sed 's,^,/,' > "$work/modules-core"
(cd "$tree" && find "lib/modules/$release/kernel/drivers/net" -type f) | sed 's,^,/,' > "$work/modules"

# The spec disables the scripts that strip programs: they would remove the signatures.
cat > "$work/kernel.spec" << END
%global __os_install_post %{nil}
%global debug_package %{nil}
%global _build_id_links none
%define _binary_payload w3.zstdio
Name: kernel
Version: 1
Release: 1
Summary: Debian's kernel in RHEL's packages
License: GPL-2.0-only
AutoReqProv: no
%description
For tests.
%package core
Summary: image
AutoReqProv: no
Provides: kernel-core-uname-r
Provides: kernel-uname-r
Requires: kernel-modules-core-uname-r
%description core
For tests.
%package modules-core
Summary: modules
AutoReqProv: no
Provides: kernel-modules-core-uname-r
Requires: kernel-uname-r
%description modules-core
For tests.
%package modules
Summary: more modules
AutoReqProv: no
Provides: kernel-modules-uname-r
Requires: kernel-modules-core-uname-r
%description modules
For tests.
%install
cp -a $tree/. %{buildroot}/
%files core -f $work/core
%files modules-core -f $work/modules-core
%files modules -f $work/modules
END
rm -f "$out"/kernel-*.rpm
rpmbuild --quiet -bb --define "_topdir $work/rpmbuild" --define "_rpmdir $out" \
  --define '_rpmfilename %%{NAME}.rpm' --define '_dbpath %{_topdir}/db' --target x86_64 "$work/kernel.spec"
