#!/bin/bash
# Gets a real kube-apiserver and etcd for the tests of the controller.
#
#   tests/kubernetes/build.sh -o DIR
#
# The results are DIR/bin/kube-apiserver and DIR/bin/etcd. No release of Debian has a
# package of kube-apiserver, but Debian 12 has its source. It is built with Debian 12's
# Go, also on a newer Debian. Go and etcd are unpacked, not installed. The programs are
# built again only when this script changes. Needs root if build tools are missing.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

release=bookworm
mirror=${DEBIAN_MIRROR:-http://deb.debian.org}
tools='dpkg-dev make rsync jq openssl'

[ "${1:-}" = -o ] && [ -n "${2:-}" ] || { sed -n 4p "$0" >&2; exit 2; }
self=$(realpath "$0")
mkdir -p "$2"; out=$(cd "$2" && pwd)
say() { echo "kube-apiserver: $*" >&2; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]; }
missing=''
for package in $tools; do installed "$package" || missing="$missing $package"; done
if [ -n "$missing" ]; then
  [ "$(id -u)" = 0 ] || { say "needs root to install:$missing"; exit 1; }
  say "installing$missing"
  # shellcheck disable=SC2086  # a list of names
  apt-get -qq install -y --no-install-recommends $missing > /dev/null ||
    { apt-get -qq update; apt-get -qq install -y --no-install-recommends $missing > /dev/null; }
fi

key=$(sha256sum < "$self" | cut -c1-64)
if [ "$(cat "$out/key" 2> /dev/null)" = "$key" ] && [ -x "$out/bin/kube-apiserver" ] && [ -x "$out/bin/etcd" ]; then
  exit 0
fi
rm -rf "$out"
mkdir -p "$out/work/lists/partial" "$out/work/cache/archives/partial" "$out/work/root" "$out/bin"
cd "$out/work"

# apt with lists of its own, so that the machine's sources stay as they are.
signed='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
for kind in deb deb-src; do
  echo "$kind $signed $mirror/debian $release main"
  echo "$kind $signed $mirror/debian-security $release-security main"
done > sources.list
apt() {
  local command=$1; shift
  apt-get -qq -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$PWD/lists" -o Dir::Cache="$PWD/cache" -o Dir::Etc::PreferencesParts=/dev/null \
    -o APT::Default-Release="$release" -o APT::Sandbox::User=root "$command" "$@"
}
say "reading the package lists of $release"
apt update
say 'downloading kubernetes, Go and etcd'
apt source --download-only kubernetes > /dev/null
apt download golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev etcd-server
for package in *.deb; do dpkg-deb -x "$package" root; done
dpkg-source --no-check -x kubernetes_*.dsc source > /dev/null

# reflect2 1.0.1 in vendor/ crashes with Go 1.18 and newer.
rm -rf source/vendor/github.com/modern-go/reflect2
cp -r root/usr/share/gocode/src/github.com/modern-go/reflect2 source/vendor/github.com/modern-go/
# The validation compares a value with a zero value. With Go 1.19 this comparison takes
# every empty text for null; it only worked because older Go compared in another way.
# The API server validates with the copy in kube-openapi.
for validate in github.com/go-openapi/validate k8s.io/kube-openapi/pkg/validation/validate; do
  sed -i 's/if data == nil || reflect.DeepEqual(.*) {/if data == nil {/' "source/vendor/$validate/type.go"
  grep -q 'if data == nil {' "source/vendor/$validate/type.go"
done
# Without a git repository the build cannot determine the version, so it gets it from
# this file.
version=$(dpkg-parsechangelog -l source/debian/changelog -S Version | sed -n 's/.*really\([0-9.]*\)-.*/\1/p')
cat > version <<END
KUBE_GIT_COMMIT=debian
KUBE_GIT_TREE_STATE=archive
KUBE_GIT_VERSION=v$version
KUBE_GIT_MAJOR=$(echo "$version" | cut -d. -f1)
KUBE_GIT_MINOR=$(echo "$version" | cut -d. -f2)
END
say "building kube-apiserver $version, which takes some minutes"
# The links in Debian's Go lead to /usr. Make them lead below root/ instead.
go=$PWD/root/usr/lib/go-1.19
[ ! -L "$go/src" ] || { rm "$go/src"; ln -s "$PWD/root/usr/share/go-1.19/src" "$go/src"; }
for part in "$go"/*; do
  if [ -L "$part" ] && [ ! -e "$part" ]; then
    target=$(readlink "$part")
    ln -sfn "$PWD/root/usr/share/go-1.19/$(basename "$target")" "$part"
  fi
done
(
  cd source
  env -u GOPATH PATH="$go/bin:$PATH" GOROOT="$go" GOCACHE="$out/work/go-cache" GOFLAGS=-mod=vendor GOPROXY=off \
    GO111MODULE=on CGO_ENABLED=0 KUBE_GIT_VERSION_FILE="$out/work/version" nice -n 19 \
    make WHAT=cmd/kube-apiserver
) > "$out/build.log" 2>&1 || { tail -n 20 "$out/build.log" >&2; say "the build failed; see $out/build.log"; exit 1; }
cp source/_output/bin/kube-apiserver "$out/bin/"
cp root/usr/bin/etcd "$out/bin/"
cd "$out"
chmod -R u+w work
rm -rf work
"$out/bin/kube-apiserver" --version >&2
echo "$key" > "$out/key"
