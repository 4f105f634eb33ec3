//! The artefacts for `oci://`, as skopeo pushes them.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::web_server::{Apache, public_directory};
use crate::{output, release, repository, run, upstream};

/// The name of each artefact, and the name ending of the same file in upstream's layout.
const ARTEFACTS: [(&str, &str); 2] = [("kernel", "kernel"), ("ramdisk", "initramfs")];

/// Copies an artefact out of its archive, as `skopeo copy ... docker://` does, and
/// compares what Ironic compares: the digest of the manifest and that of its layer.
#[test]
fn skopeo_copies_kernel_and_ramdisk() {
    let archive = release().join("oci/landfall-ramdisk.tar");
    for (name, ending) in ARTEFACTS {
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
        let layer = blob(layers[0]["digest"].as_str().unwrap());
        assert!(layer == upstream(ending), "{name}");
        let empty = "application/vnd.oci.empty.v1+json";
        assert_eq!(manifest["config"]["mediaType"], empty);
    }
}

/// Debian's docker-registry on a free port of this machine. It stores its files in a
/// temporary directory.
struct Registry(Child);

impl Registry {
    fn start(directory: &Path) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let configuration = directory.join("registry.yml");
        let text = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: {address}}}\n",
            directory.display()
        );
        fs::write(&configuration, text).unwrap();
        let program = "out/judges/registry/usr/bin/docker-registry";
        let mut command = Command::new(repository().join(program));
        command.arg("serve").arg(configuration);
        let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
        (Self(silent.spawn().unwrap()), address)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Pushes an artefact as soon as the registry answers, and returns the digest of its
/// manifest.
fn push(name: &str, address: &str, work: &Path) -> String {
    let archive = release().join("oci/landfall-ramdisk.tar");
    let digest = work.join("digest");
    let push = || {
        let mut skopeo = Command::new("skopeo");
        skopeo
            .args(["copy", "--quiet", "--preserve-digests", "--digestfile"])
            .arg(&digest)
            .arg("--dest-tls-verify=false")
            .arg(format!("oci-archive:{}:{name}", archive.display()))
            .arg(format!("docker://{address}/landfall/ipa:{name}"));
        output(&mut skopeo).status.success()
    };
    let end = Instant::now() + Duration::from_secs(30);
    while !push() {
        assert!(Instant::now() < end, "the registry takes nothing");
        std::thread::sleep(Duration::from_millis(100));
    }
    fs::read_to_string(digest).unwrap().trim().to_owned()
}

/// A command that runs Ironic's code. It fetches the artefact with this digest into a
/// file and prints the artefact's type.
fn fetch(digest: &str, address: &str, file: &Path) -> Command {
    let mut python = Command::new(repository().join("out/ironic/venv/bin/python"));
    python
        // skopeo uses no proxy for an address of this machine, but Python does.
        .env("no_proxy", "127.0.0.1")
        .arg(repository().join("tests/release/fetch_with_ironic.py"))
        .arg(format!("oci://{address}/landfall/ipa@{digest}"))
        .arg(file);
    python
}

#[test]
fn ironic_fetches_both_from_a_registry() {
    let work = tempfile::tempdir().unwrap();
    let (_registry, address) = Registry::start(work.path());
    for (name, ending) in ARTEFACTS {
        let digest = push(name, &address, work.path());
        let fetched = work.path().join(name);
        let kind = run(&mut fetch(&digest, &address, &fetched));
        assert_eq!(kind.trim(), "artifact");
        assert!(fs::read(fetched).unwrap() == upstream(ending), "{name}");
    }
}

/// A public registry answers 401 first, and gives a token to every client.
/// `docs/platforms/ironic.md` describes the setting that Ironic needs for this.
#[test]
fn ironic_gets_anonymous_tokens_only_with_a_file_for_secrets() {
    let work = tempfile::tempdir().unwrap();
    let (_registry, behind) = Registry::start(work.path());
    let (name, ending) = ARTEFACTS[0];
    let digest = push(name, &behind, work.path());
    let tokens = public_directory();
    let public = Apache::before_registry(&behind, tokens.path(), work.path());

    let fetched = work.path().join(name);
    let refused = output(&mut fetch(&digest, &public.address, &fetched));
    assert!(!refused.status.success(), "expected a refusal");
    let secrets = work.path().join("registries.json");
    fs::write(&secrets, r#"{"auths":{}}"#).unwrap();
    let kind = run(fetch(&digest, &public.address, &fetched).arg(&secrets));
    assert_eq!(kind.trim(), "artifact");
    assert!(fs::read(fetched).unwrap() == upstream(ending));
}

/// A conductor unpacks a ramdisk that begins as zstd, and then serves a file that is five
/// times as large. So the ramdisk must begin with an uncompressed archive.
#[test]
fn a_conductor_leaves_the_ramdisk_as_it_is() {
    let ramdisk = release().join("dib/files/ipa-centos9-master.initramfs");
    assert!(fs::read(ramdisk).unwrap().starts_with(b"070701"));
}
