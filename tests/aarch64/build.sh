#!/bin/bash
# Builds the agent for aarch64 on an x86-64 machine, and downloads the packages from which
# boot media for aarch64 hosts are made.
#
#   tests/aarch64/build.sh [--suite SUITE] -o DIR
#
# The results:
#   DIR/landfall-agent   the static agent
#   DIR/packages         Debian 12's kernel and Ignition for arm64, as .deb files
#   DIR/system           unpacked: shim, GRUB and systemd's stub, for --loader-dir, and
#                        the programs of the test image (tests/coreos-image/build.sh)
#
# The compiler and the standard library for aarch64 are Debian's, so this needs no
# toolchain from rustup. The suite is sid: the workspace needs Rust 1.95, and Debian 13
# has 1.85. The compiler is in a root file system of its own, DIR/root, which is kept;
# remove it to get a newer compiler. Cargo fetches the crates with this machine's
# configuration.
#
# It needs root, mmdebstrap, 4 GB of disk and about 15 minutes.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

suite=sid out=''
loader_release=bookworm
target=aarch64-unknown-linux-gnu
mirror=${DEBIAN_MIRROR:-http://deb.debian.org}
usage() { sed -n 5p "$0" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    --suite) suite=$2; shift 2 ;;
    -o) out=$2; shift 2 ;;
    *) usage ;;
  esac
done
[ -n "$out" ] || usage
cd "$(dirname "$0")/../.."
mkdir -p "$out"; out=$(cd "$out" && pwd)
say() { echo "aarch64: $*" >&2; }

# make_root: makes the root file system with the compiler. Its packages of arm64 are
# libraries only, so no program of arm64 has to run.
make_root() {
  [ ! -e "$out/root/complete" ] || return 0
  [ "$(id -u)" = 0 ] || { say 'needs root to make the file system of the compiler'; exit 1; }
  say "making a root file system of $suite with rustc"
  rm -rf --one-file-system "$out/root"
  # On a snapshot mirror, the package lists of sid have expired. apt must accept them; it
  # still checks their signature.
  unshare --mount mmdebstrap --variant=minbase --architectures=amd64,arm64 \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --include=ca-certificates,cargo,rustc,gcc,libc6-dev,make,perl,gcc-aarch64-linux-gnu,libc6-dev-arm64-cross,libstd-rust-dev:arm64 \
    "$suite" "$out/root" "$mirror/debian" > "$out/root.log" 2>&1 ||
    { tail -n 20 "$out/root.log" >&2; say "mmdebstrap failed, see $out/root.log. In sid, the packages of amd64 and arm64 can differ in version for some hours"; exit 1; }
  # Add the certificate authorities that are installed on this machine for its site.
  if ls /usr/local/share/ca-certificates/*.crt > /dev/null 2>&1; then
    cp /usr/local/share/ca-certificates/*.crt "$out/root/usr/local/share/ca-certificates/"
    chroot "$out/root" update-ca-certificates > /dev/null 2>&1
  fi
  touch "$out/root/complete"
}

# The environment of the build: empty except for the settings with which cargo reaches
# crates.io.
environment=(env -i HOME=/root TERM=dumb LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE; do
  [ -z "${!name:-}" ] || environment+=("$name=${!name}")
done

# run_in COMMAND: runs a shell command in the root file system of the compiler, with the
# source tree at /landfall (read only) and the results at /target. The namespaces end with
# the command, and with them all its mounts and processes.
run_in() {
  cp /etc/resolv.conf "$out/root/etc/resolv.conf"
  mkdir -p "$out/root/landfall" "$out/root/target" "$out/root/root/.cargo" "$out/target"
  local configuration=${CARGO_HOME:-$HOME/.cargo}/config.toml
  [ ! -f "$configuration" ] || cp "$configuration" "$out/root/root/.cargo/config.toml"
  # shellcheck disable=SC2016  # for the inner shell
  unshare --mount --pid --fork --kill-child --propagation private \
    bash -euc '
      mount -t proc proc "$1/proc"
      mount --rbind /dev "$1/dev"
      mount --bind "$2" "$1/landfall"
      mount -o remount,bind,ro "$1/landfall"
      mount --bind "$3" "$1/target"
      exec chroot "$1" "${@:5}" /bin/bash -c "cd /landfall && { $4; exit; }"
    ' run_in "$out/root" "$PWD" "$out/target" "$1" "${environment[@]}"
}

build_agent() {
  say "compiling the agent with $(run_in 'rustc --version')"
  run_in "CARGO_TARGET_DIR=/target cargo build --release --locked --target $target -p landfall-agent"
  cp "$out/target/$target/release/landfall-agent" "$out/landfall-agent"
  say "$(stat -c '%n: %s bytes' "$out/landfall-agent")"
  # Test the agent with QEMU's user-mode emulator, if it is installed.
  if command -v qemu-aarch64 > /dev/null; then qemu-aarch64 "$out/landfall-agent" --version >&2; fi
}

# apt COMMAND [ARGUMENT...]: runs apt-get or apt-cache with package lists of its own, as
# on an arm64 machine.
apt() {
  local command=$1 program=apt-get; shift
  [ "$command" != depends ] || program=apt-cache
  "$program" -qq -o Dir::Etc::SourceList="$out/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$out/apt/lists" -o Dir::State::Status="$out/apt/status" -o Dir::Cache="$out/apt/cache" \
    -o Dir::Etc::PreferencesParts=/dev/null -o APT::Architecture=arm64 -o APT::Architectures::=arm64 \
    -o APT::Sandbox::User=root "$command" "$@"
}

get_packages() {
  local package kernel
  [ ! -e "$out/packages/complete" ] || return 0
  say "downloading kernel, Ignition and programs of arm64 from $loader_release"
  rm -rf "$out/apt" "$out/packages" "$out/system"
  mkdir -p "$out/apt/lists/partial" "$out/apt/cache/archives/partial" "$out/packages/loaders" "$out/system"
  : > "$out/apt/status"
  local signed='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
  echo "deb $signed $mirror/debian $loader_release main" > "$out/apt/sources.list"
  apt update
  # The signed kernel that the meta package depends on.
  kernel=$(apt depends linux-image-arm64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ && !found++ { print $2 }')
  [ -n "$kernel" ] || { say 'linux-image-arm64 names no kernel'; exit 1; }
  (cd "$out/packages" && apt download "$kernel" ignition)
  (cd "$out/packages/loaders" && apt download shim-signed grub-efi-arm64-signed grub-efi-arm64-bin systemd-boot-efi)
  # apt also downloads all dependencies, because $out/apt/status lists no installed
  # package.
  apt install -y --download-only --no-install-recommends ignition busybox-static util-linux mount passwd > /dev/null
  for package in "$out"/packages/loaders/*.deb "$out"/apt/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$out/system"
    basename "$package"
  done > "$out/packages/names"
  mv "$out/packages/names" "$out/system/packages"
  touch "$out/packages/complete"
}

# Installs the emulator and the firmware for aarch64 hosts, and binutils, if they are
# missing.
install_emulator() {
  local package missing=''
  for package in qemu-system-arm qemu-efi-aarch64 binutils; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  [ "$(id -u)" = 0 ] || { say "needs root to install:$missing"; exit 1; }
  say "installing$missing"
  # shellcheck disable=SC2086  # a list of names
  apt-get -qq install -y --no-install-recommends $missing > /dev/null ||
    { apt-get -qq update; apt-get -qq install -y --no-install-recommends $missing > /dev/null; }
}

install_emulator
make_root
build_agent
get_packages
