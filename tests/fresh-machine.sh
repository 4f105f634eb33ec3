#!/bin/bash
# Runs what the README promises on a machine that has never seen this project.
#
#   tests/fresh-machine.sh [--release bookworm|trixie]... [--keep] [-o DIR]
#
# For each Debian release (default: both) it makes a minimal root of that release with
# make, CA certificates and this machine's Rust toolchain, puts the committed source
# tree into it, and runs the build, the demo, everything that `make test` sets up, the
# end-to-end tests of the ways to boot and one scenario under the real Ironic.  There is
# no package cache, no pip cache, no crate cache, and the home directory is empty.
#
# The root is DIR/RELEASE (default: out/fresh), its log DIR/RELEASE.log.  The script
# removes the root of a release that passed, unless --keep is given.  It needs root,
# mmdebstrap, 15 GB of disk, and about half an hour for each release.
set -euo pipefail
export LC_ALL=C

cd "$(dirname "$0")/.."
releases=() keep='' out=out/fresh
while [ $# -gt 0 ]; do
  case $1 in
    --release) releases+=("$2"); shift 2 ;;
    --keep) keep=1; shift ;;
    -o) out=$2; shift 2 ;;
    *) sed -n 4p "$0" >&2; exit 2 ;;
  esac
done
[ ${#releases[@]} -gt 0 ] || releases=(bookworm trixie)
mkdir -p "$out"; out=$(cd "$out" && pwd)
toolchain=$(rustc --print sysroot)
say() { echo "fresh-machine: $*" >&2; }

# The README's build and demo, and tests that use most of what the set-up makes: firmware,
# GRUB, the test image, Ignition, libvirt, the Redfish emulator and Ironic. Each target
# must install every package that it needs, so the targets that need few packages come
# first.
steps=(
  'make build'
  'make demo'
  'make live-agent build live-system image peer installers ironic'
  'make test-e2e TEST=boot_ways::'
  'make test-ironic SCENARIO="--exact scenarios::virtual_media_uefi"'
)

# make_root RELEASE DIR: creates in DIR the release's minimal system with the source
# tree.
make_root() {
  unshare --mount mmdebstrap --quiet --variant=minbase --include=ca-certificates,make "$1" "$2"
  cp /etc/resolv.conf "$2/etc/resolv.conf"
  # A site's proxy and its own certificate authority belong to the network, not to the
  # machine: without them apt cannot fetch a package.
  grep -hsi '^ *acquire::https\?::proxy' /etc/apt/apt.conf /etc/apt/apt.conf.d/* > "$2/etc/apt/apt.conf.d/80proxy" || true
  if ls /usr/local/share/ca-certificates/*.crt > /dev/null 2>&1; then
    cp /usr/local/share/ca-certificates/*.crt "$2/usr/local/share/ca-certificates/"
    chroot "$2" update-ca-certificates > /dev/null 2>&1
  fi
  mkdir -p "$2/opt/rust" "$2/root/landfall"
  # Only what is committed: a file that somebody forgot to add is missing here too.
  git archive HEAD | tar -x -C "$2/root/landfall"
}

# run_in ROOT COMMAND: runs COMMAND as root in ROOT, with its own mount and PID
# namespaces.  They end with the command, and with them all its mounts and processes.
run_in() {
  # shellcheck disable=SC2016  # for the inner shell
  unshare --mount --pid --fork --kill-child --propagation private \
    bash -euc '
      mount --bind "$1" "$1"
      mount -t proc proc "$1/proc"
      mount --rbind /sys "$1/sys"
      mount --rbind /dev "$1/dev"
      mount -t tmpfs tmpfs "$1/run"
      mount --bind "$2" "$1/opt/rust"
      mount -o remount,bind,ro "$1/opt/rust"
      # The shell must stay PID 1: when make was PID 1 and a signal ended it in the
      # middle of a build, it was seen to go on and spin.
      exec chroot "$1" "${@:4}" /bin/bash -c "cd /root/landfall && { $3; exit; }"
    ' run_in "$1" "$toolchain" "$2" "${environment[@]}"
}

# An empty environment, except for the variables that are needed to reach the
# registries.
environment=(env -i HOME=/root TERM=dumb LC_ALL=C.UTF-8 LANDFALL_TESTS_REQUIRED=1
  PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE PIP_CERT PIP_INDEX_URL; do
  [ -z "${!name:-}" ] || environment+=("$name=${!name}")
done

# try_release RELEASE: runs the steps.  Succeeds if every step succeeds.
try_release() {
  local root=$out/$1 log=$out/$1.log step began
  rm -rf --one-file-system "$root"
  say "$1: creating the root file system"
  make_root "$1" "$root" > "$log" 2>&1 || { tail -30 "$log" >&2; say "$1: FAILED: creating the root file system, see $log"; return 1; }
  for step in "${steps[@]}"; do
    say "$1: $step"
    echo "== $step" >> "$log"
    began=$SECONDS
    if ! run_in "$root" "$step" >> "$log" 2>&1 < /dev/null; then
      tail -40 "$log" >&2
      say "$1: FAILED: $step, after $((SECONDS - began)) s, see $log"
      return 1
    fi
    say "$1: passed in $((SECONDS - began)) s"
  done
  [ -n "$keep" ] || rm -rf --one-file-system "$root"
}

passed=0 failed=0
for release in "${releases[@]}"; do
  if try_release "$release"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
