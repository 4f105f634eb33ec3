//! Runs every function with the seeds of the fuzz targets and with damaged copies of
//! them, in seconds and without a sanitizer. Every change runs these tests; `make fuzz`
//! tests more thoroughly.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use landfall_untrusted_input::*;

type Function = fn(&[u8]);

const FUNCTIONS: &[(&str, Function)] = &[
    ("ata_identify", ata_identify),
    ("bare_metal_hosts", bare_metal_hosts),
    ("base_image", base_image),
    ("bls_entry", bls_entry),
    ("checksum", checksum),
    ("config_drive", config_drive),
    ("config_file", config_file),
    ("config_ign", config_ign),
    ("dhcp", dhcp),
    ("dhcpv6", dhcpv6),
    ("download_answer", download_answer),
    ("efi", efi),
    ("embedded_host", embedded_host),
    ("ext4", ext4),
    ("file_system", file_system),
    ("gpt", gpt),
    ("grub_choice", grub_choice),
    ("grub_console", grub_console),
    ("grub_environment", grub_environment),
    ("http_command", http_command),
    ("http_date", http_date),
    ("http_range", http_range),
    ("ibft", ibft),
    ("image", image),
    ("image_signature", image_signature),
    ("install_config", install_config),
    ("iscsi_login", iscsi_login),
    ("iso_areas", iso_areas),
    ("kernel_command_line", kernel_command_line),
    ("keyfile", keyfile),
    ("keys", keys),
    ("left_out", left_out),
    ("lldp", lldp),
    ("lookup_answer", lookup_answer),
    ("mdns_advert", mdns_advert),
    ("medium", medium),
    ("modinfo", modinfo),
    ("module_index", module_index),
    ("nd_user_option", nd_user_option),
    ("network_data", network_data),
    ("newc", newc),
    ("nmstate", nmstate),
    ("nvme_boot_table", nvme_boot_table),
    ("nvme_tcp_answer", nvme_tcp_answer),
    ("openshift_install_config", openshift_install_config),
    ("parser_answer", parser_answer),
    ("pem_file", pem_file),
    ("platform_table", platform_table),
    ("qcow2", qcow2),
    ("root_device_hint", root_device_hint),
    ("rpm_package", rpm_package),
    ("serial_port_table", serial_port_table),
    ("smbios", smbios),
    ("stream_metadata", stream_metadata),
    ("uevent", uevent),
    ("kernel_image", kernel_image),
    ("unified_image", unified_image),
    ("unpack", unpack),
    ("vpd", vpd),
];

/// The maximum number of places at which a seed is damaged. The limit is needed because
/// some seeds have 128 KiB.
const PLACES: usize = 64;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn stems(folder: &str) -> BTreeSet<String> {
    let files = files(&fuzz().join(folder)).into_iter();
    files
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_function_has_a_target_and_seeds() {
    let functions: BTreeSet<_> = FUNCTIONS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    assert_eq!(stems("targets"), functions);
    assert_eq!(stems("seeds"), functions);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for name in functions {
        let target = fuzz().join("targets").join(format!("{name}.rs"));
        let target = fs::read_to_string(target).unwrap();
        assert!(target.contains(&format!("::{name}(data)")), "{target}");
        let path = format!("path = \"targets/{name}.rs\"");
        assert!(manifest.contains(&path), "{name} has no [[bin]]");
    }
}

#[test]
fn seeds_and_damaged_seeds_are_read() {
    for (name, function) in FUNCTIONS {
        let seeds = files(&fuzz().join("seeds").join(name));
        assert!(!seeds.is_empty(), "{name} has no seed");
        for seed in seeds {
            println!("{}", seed.display());
            let seed = fs::read(seed).unwrap();
            function(&seed);
            for place in 0..PLACES.min(seed.len()) {
                let at = place * seed.len() / PLACES.min(seed.len());
                function(&seed[..at]);
                let mut damaged = seed.clone();
                damaged[at] ^= 1 << (place % 8);
                function(&damaged);
                damaged[at] = 0xff;
                function(&damaged);
                damaged.splice(at..at, [0; 16]);
                function(&damaged);
            }
        }
    }
}
