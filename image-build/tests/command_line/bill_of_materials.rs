//! Tests the SBOM of a release: its components, and which components each file of the
//! release contains.

use std::fs;

use landfall_initramfs::digest_writer::sha256;
use serde_json::Value;

use crate::fixture::module;
use crate::release::{fixture, release};

#[test]
fn the_bill_names_all_components() {
    let fixture = fixture();
    release(&fixture, "out", &[]);
    let bill: Value =
        serde_json::from_slice(&fs::read(fixture.path("out/sbom.cdx.json")).unwrap()).unwrap();
    let components = bill["components"].as_array().unwrap();
    let find = |reference: &str| {
        let mut found = components.iter();
        found
            .find(|component| component["bom-ref"] == reference)
            .unwrap_or_else(|| panic!("no {reference}"))
    };
    let kernel = find("kernel:6.1-test");
    assert_eq!(kernel["type"], "operating-system");
    assert_eq!(kernel["components"][0]["type"], "device-driver");
    assert_eq!(kernel["components"][0]["name"], "virtio_net");
    let tool = find("pkg:deb/debian/some-tool@1%3A2%2Bb1?arch=amd64");
    assert_eq!(tool["hashes"][0]["content"].as_str().unwrap().len(), 64);
    // The bill lists crates with the digest from Cargo.lock. It leaves out crates that
    // only tests use.
    let serde = components
        .iter()
        .find(|component| component["name"] == "serde_json")
        .unwrap();
    assert_eq!(serde["hashes"][0]["alg"], "SHA-256");
    assert_eq!(serde["licenses"][0]["expression"], "MIT OR Apache-2.0");
    let names: Vec<&str> = components
        .iter()
        .filter_map(|component| component["name"].as_str())
        .collect();
    assert!(names.contains(&"landfall-agent") && names.contains(&"oci-spec"));
    assert!(!names.contains(&"proptest") && !names.contains(&"criterion"));
    // The installed packages of the boot loaders.
    assert!(names.contains(&"shim-signed") && names.contains(&"grub-efi-amd64-signed"));
    let references: Vec<&Value> = components
        .iter()
        .flat_map(|component| {
            let nested = component["components"].as_array();
            let nested = nested.into_iter().flatten();
            nested.chain([component]).map(|one| &one["bom-ref"])
        })
        .collect();
    let unique: std::collections::BTreeSet<&str> = references
        .iter()
        .map(|reference| reference.as_str().unwrap())
        .collect();
    assert_eq!(unique.len(), references.len());
    for dependency in bill["dependencies"].as_array().unwrap() {
        let on = dependency["dependsOn"].as_array().into_iter().flatten();
        for reference in on.chain([&dependency["ref"]]) {
            assert!(unique.contains(reference.as_str().unwrap()), "{reference}");
        }
    }
}

/// A driver that declares one firmware file: first a file of no package, then a file of
/// a Debian package.
#[test]
fn the_bill_names_firmware() {
    let fixture = fixture();
    let driver =
        b"alias=virtio:d00000001v*\0vermagic=6.1-test SMP \0license=GPL\0firmware=acme/nic.bin\0";
    fixture.put(
        "kernel/lib/modules/6.1-test/kernel/drivers/net/virtio_net.ko",
        &module(driver),
    );
    fixture.put("firmware/acme/nic.bin", b"firmware");
    let bill = |options: &[&str]| -> Value {
        release(&fixture, "out", &[options, &["--force"]].concat());
        serde_json::from_slice(&fs::read(fixture.path("out/sbom.cdx.json")).unwrap()).unwrap()
    };
    let own = bill(&["--firmware", "firmware"]);
    let components = own["components"].as_array().unwrap();
    let reference = "firmware:acme/nic.bin";
    let found = { components.iter() }.find(|component| component["bom-ref"] == reference);
    let found = found.unwrap();
    assert_eq!(found["type"], "firmware");
    assert_eq!(found["name"], "acme/nic.bin");
    assert_eq!(found["hashes"][0]["content"], sha256(b"firmware"));
    // Exactly the files that contain the ramdisk contain the firmware.
    let holders: Vec<&str> = { own["dependencies"].as_array().unwrap().iter() }
        .filter(|entry| {
            let on = entry["dependsOn"].as_array();
            on.is_some_and(|on| on.iter().any(|on| on == reference))
        })
        .map(|entry| entry["ref"].as_str().unwrap())
        .collect();
    let has = |name: &str| holders.iter().any(|holder| holder.ends_with(name));
    assert!(
        has("landfall.iso") && has("oci/landfall-downloader.tar"),
        "{holders:?}"
    );
    assert!(has("dib/ipa-debian-master.tar.gz"), "{holders:?}");
    assert!(!has("landfall-image") && !has("esp.img"), "{holders:?}");

    // Without --firmware the bill lists no firmware.
    let none = bill(&[]);
    let components = none["components"].as_array().unwrap();
    assert!(
        components
            .iter()
            .all(|component| component["type"] != "firmware")
    );

    // In the bill, a file of a Debian package is a part of its package. base-files is
    // on every Debian machine, so the test uses a file of base-files as firmware.
    fixture.put(
        "kernel/lib/modules/6.1-test/kernel/drivers/net/virtio_net.ko",
        &module(b"alias=virtio:d00000001v*\0vermagic=6.1-test SMP \0license=GPL\0firmware=GPL-2\0"),
    );
    let packaged = bill(&["--firmware", "/usr/share/common-licenses"]);
    let components = packaged["components"].as_array().unwrap();
    let package = { components.iter() }
        .find(|component| component["type"] == "firmware" && component["name"] == "base-files");
    let package = package.unwrap();
    assert!(
        package["purl"]
            .as_str()
            .unwrap()
            .starts_with("pkg:deb/debian/base-files@")
    );
    assert_eq!(package["components"][0]["bom-ref"], "firmware:GPL-2");
}
