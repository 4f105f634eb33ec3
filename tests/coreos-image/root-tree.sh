# The real root file system: just enough to show what Ignition changed in it. Sourced by
# build.sh.

build_root_tree() {
  local root=$1
  mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,etc/NetworkManager/system-connections,etc/systemd/system,etc/skel}
  mkdir -p "$root"/{proc,sys,dev,run,tmp,boot,home,root,lib,var/home,var/log,ostree/repo}
  mkdir -p "$root/ostree/boot.1.1/rhcos/${deployment#rhcos-}"
  ln -s boot.1.1 "$root/ostree/boot.1"
  busybox_tree "$root"
  install -m 755 "$here/root-init" "$root/sbin/init"
  printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' > "$root/etc/passwd"
  printf 'root:x:0:\nwheel:x:10:\nadm:x:4:\nsudo:x:27:\nsystemd-journal:x:190:\nnogroup:x:65534:\n' > "$root/etc/group"
  printf 'root:*:19000:0:99999:7:::\n' > "$root/etc/shadow"
  : > "$root/etc/gshadow"
  chmod 600 "$root/etc/shadow" "$root/etc/gshadow"
  printf 'NAME="CoreOS-shaped test image"\nID=rhcos\nVERSION_ID=1.0\n' > "$root/etc/os-release"
  printf '{"build": "1.0", "ref": "", "ostree-commit": "", "imgid": "coreos.raw"}\n' > "$root/.coreos-aleph-version.json"
  # Ignition fails to relabel if /etc/selinux/config names no policy.
  mkdir -p "$root/etc/selinux/targeted/contexts/files"
  printf 'SELINUX=permissive\nSELINUXTYPE=targeted\n' > "$root/etc/selinux/config"
  : > "$root/etc/selinux/targeted/contexts/files/file_contexts"
}
