//! The artefacts for `oci://`, as skopeo pushes them.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::{release, run};

/// Copies an artefact out of its archive, as `skopeo copy ... docker://` does, and
/// compares what Ironic compares: the digest of the manifest and that of its layer.
#[test]
fn skopeo_copies_kernel_and_ramdisk() {
    let archive = release().join("oci/landfall-ramdisk.tar");
    for (name, ending) in [("kernel", "kernel"), ("ramdisk", "initramfs")] {
        let work = tempfile::tempdir().unwrap();
        let digest = work.path().join("digest");
        run(Command::new("skopeo")
            .args(["copy", "--quiet", "--preserve-digests", "--digestfile"])
            .arg(&digest)
            .arg(format!("oci-archive:{}:{name}", archive.display()))
            .arg(format!("oci:{}:copied", work.path().join("oci").display())));
        let digest = fs::read_to_string(digest).unwrap();
        let blob = |digest: &str| {
            let path = digest.trim().replace(':', "/");
            fs::read(work.path().join("oci/blobs").join(path)).unwrap()
        };
        let manifest: Value = serde_json::from_slice(&blob(&digest)).unwrap();
        let layers = manifest["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 1);
        let upstream = release().join(format!("dib/files/ipa-centos9-master.{ending}"));
        let layer = blob(layers[0]["digest"].as_str().unwrap());
        assert!(layer == fs::read(upstream).unwrap(), "{name}");
        let empty = "application/vnd.oci.empty.v1+json";
        assert_eq!(manifest["config"]["mediaType"], empty);
    }
}

/// A conductor unpacks what begins as zstd with zstd(1), which refuses bytes after
/// the last frame.
#[test]
fn zstd_unpacks_the_ramdisk() {
    let ramdisk = release().join("dib/files/ipa-centos9-master.initramfs");
    run(Command::new("zstd")
        .args(["--test", "--quiet"])
        .arg(ramdisk));
}
