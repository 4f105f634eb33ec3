#!/bin/bash
# Does what metal3's downloader does with an archive that a web server has. Written from the
# contract of its get-resource.sh (metal3-io/ironic-ipa-downloader, 854d640 of 2026-07-02), of
# which nothing is copied:
#
#  * The archive is $IPA_BASEURI/ipa-$IPA_FLAVOR-$IPA_BRANCH.tar.gz, or $IPA_FILENAME there.
#    Slashes in the branch become hyphens.
#  * `tar -xaf` unpacks it in an empty folder below $SHARED_DIR/tmp. Its files are named as
#    the archive, without .tar.gz, with .kernel and .initramfs.
#  * The folder then becomes $SHARED_DIR/html/images/ARCHIVE-ETAG. Only a header that is
#    written `ETag:` counts; without one, the name ends with the hyphen. (If that folder
#    exists, the original moves the new one into it, and leaves it there. Here this is an
#    error, because the server has then sent an archive that the volume has already.)
#  * Links ironic-python-agent[_$IPA_ARCH].{kernel,initramfs,headers} lead to the files, and
#    to the headers of the answer.
#  * The next run sends the tag as If-None-Match. If nothing came, everything stays. (The
#    original fails then, unless a cache of its own is configured.)
#  * No digest is compared.
set -euo pipefail

shared=${SHARED_DIR:?}
archive=${IPA_FILENAME:-ipa-${IPA_FLAVOR:-centos9}-$(tr / - <<< "${IPA_BRANCH:-master}").tar.gz}
files=${archive%.tar.gz}
link=ironic-python-agent${IPA_ARCH:+_$IPA_ARCH}
images=$shared/html/images

tag() { sed -n 's/^ETag: *\(.*[^\r]\)\r*$/\1/p' "$1" | tail -n 1; }

mkdir -p "$images" "$shared/tmp"
work=$(mktemp -d -p "$shared/tmp")
known=()
[ ! -r "$images/$link.headers" ] || known=(--header "If-None-Match: $(tag "$images/$link.headers")")
# The original has no --noproxy. Here the server is on this machine, not behind a proxy.
curl --noproxy '*' --silent --show-error --globoff --dump-header "$work/$archive.headers" --output "$work/$archive" \
  "${known[@]}" "${IPA_BASEURI:?}/$archive"
if [ ! -s "$work/$archive" ]; then
  rm -r "$work"
  exit 0
fi
tar -C "$work" -xaf "$work/$archive"
chmod 755 "$work"
folder=$archive-$(tag "$work/$archive.headers" | tr -d '"')
mv -T "$work" "$images/$folder"
ln -sf "$folder/$archive.headers" "$images/$link.headers"
for ending in initramfs kernel; do
  ln -sf "$folder/$files.$ending" "$images/$link.$ending"
done
