//! Checksums, SBOM, manual pages and `esp.img`.

use std::fs;
use std::process::Command;

use crate::{PACKAGE, bill, output, release, repository, run};

#[test]
fn the_checksums_are_right() {
    run(Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(release()));
}

#[test]
fn the_sbom_is_valid() {
    let python = repository().join("out/judges/venv/bin/python");
    let script = repository().join("tests/release/validate_sbom.py");
    let validate = |file: &std::path::Path| {
        let mut command = Command::new(&python);
        output(command.arg(&script).arg(file))
    };
    let good = validate(&release().join("sbom.cdx.json"));
    assert!(
        good.status.success(),
        "{}",
        String::from_utf8_lossy(&good.stderr)
    );
    let bad = tempfile::NamedTempFile::new().unwrap();
    let text = fs::read_to_string(release().join("sbom.cdx.json")).unwrap();
    fs::write(bad.path(), text.replace("\"device-driver\"", "\"driver\"")).unwrap();
    assert!(!validate(bad.path()).status.success());
}

#[test]
fn the_sbom_lists_the_drivers_of_servers_and_the_packages() {
    let bill = bill();
    let components = bill["components"].as_array().unwrap();
    let kernel = components
        .iter()
        .find(|component| component["type"] == "operating-system")
        .unwrap();
    let purl = kernel["purl"].as_str().unwrap();
    assert!(purl.starts_with("pkg:deb/debian/linux-image-"), "{purl}");
    let modules = kernel["components"].as_array().unwrap();
    assert!(modules.iter().any(|module| module["name"] == "mlx5_core"));
    assert!(
        modules
            .iter()
            .all(|module| module["licenses"][0]["license"]["name"].is_string())
    );
    for name in ["xorriso", "shim-signed", "grub-efi-amd64-signed", "rustls"] {
        assert!(
            components.iter().any(|component| component["name"] == name),
            "{name}"
        );
    }
}

#[test]
fn mandoc_reads_every_manual_page() {
    let work = tempfile::tempdir().unwrap();
    let file = release().join(PACKAGE);
    run(Command::new("dpkg-deb")
        .arg("-x")
        .arg(file)
        .arg(work.path()));
    let mut pages = 0;
    for entry in fs::read_dir(work.path().join("usr/share/man/man1")).unwrap() {
        let path = entry.unwrap().path();
        // Report only errors: clap_mangen's pages also cause remarks about style.
        let mut command = Command::new("mandoc");
        let linted = output(command.args(["-T", "lint", "-W", "error"]).arg(&path));
        assert!(
            linted.status.success(),
            "{}",
            String::from_utf8_lossy(&linted.stdout)
        );
        pages += 1;
    }
    assert!(pages > 6, "found {pages} pages");
}

#[test]
fn esp_img_has_the_loaders_where_firmware_looks() {
    let listed = run(Command::new("mdir")
        .args(["-/", "-b", "-i"])
        .arg(release().join("esp.img"))
        .arg("::"));
    let upper = listed.to_uppercase();
    for path in [
        "::/EFI/BOOT/BOOTX64.EFI",
        "::/EFI/BOOT/GRUBX64.EFI",
        "::/BOOT/GRUB/GRUB.CFG",
    ] {
        assert!(upper.contains(path), "{listed}");
    }
}
