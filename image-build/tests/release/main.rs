//! Tests the result of `make release` with the programs that its users have: podman,
//! skopeo, apt, Apache, Ansible, and the validator of CycloneDX.
//!
//! `make test-release` runs these tests. They need root, because they run containers.

#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing has failed")]

mod agent_container;
mod ansible;
mod artifacts;
mod audit_data;
mod builder_container;
mod documents;
mod downloader_container;
#[path = "../command_line/http_get.rs"]
mod http_get;
mod image_service_container;
mod installed_package;
mod metal3_downloader;
mod podman;
mod same_bytes;
mod web_server;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The builder as a Debian package.
const PACKAGE: &str = concat!("landfall-image_", env!("CARGO_PKG_VERSION"), "_amd64.deb");

/// The top directory of the repository.
fn repository() -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    directory.canonicalize().unwrap()
}

/// The directory that `make release` made.
fn release() -> PathBuf {
    let directory = repository().join("out/release");
    assert!(
        directory.join("SHA256SUMS").exists(),
        "run `make release` first"
    );
    directory
}

/// The content of the release's kernel or ramdisk under upstream's name. `ending` is
/// `kernel` or `initramfs`.
fn upstream(ending: &str) -> Vec<u8> {
    let name = format!("dib/files/ipa-centos9-master.{ending}");
    std::fs::read(release().join(name)).unwrap()
}

/// Runs a command that must succeed, and returns its standard output.
fn run(command: &mut Command) -> String {
    let output = output(command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn output(command: &mut Command) -> Output {
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Reads the SBOM of the release.
fn bill() -> Value {
    let text = std::fs::read(release().join("sbom.cdx.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}
