//! Reads what is in a ramdisk, an ISO or a single EFI file.

mod iso;
mod uki;

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use landfall_initramfs::build::{BUILD_FACTS, COREOS_FEATURES, LIVE_STAMP};
use landfall_initramfs::compress::unpack_segments;
use landfall_initramfs::{digest_writer, newc, path_error};
use landfall_module_index::{COMPLETE_MARKER, INDEX_NAME, LEFT_OUT_NAME};
use landfall_module_index::{IndexContent, LeftOut};
use landfall_network_plan::{EmbeddedHost, MacAddr, Metal3Hints, NetworkPlan, embedded};
use serde::Serialize;

use crate::authorities;
pub(crate) use iso::{IsoContent, is_iso};
pub(crate) use uki::UkiContent;

/// In bytes: the size of the largest ramdisk or UKI that the builder reads. A full server
/// ramdisk with all firmware is below 200 MB.
pub(crate) const MAX_FILE_BYTES: u32 = 2 << 30;
pub(crate) const MAX_UNPACKED_BYTES: usize = 4 << 30;
/// What coreos-installer puts into a ramdisk (its src/live/embed.rs).
const IGNITION_CONFIG: &str = "config.ign";
const FIRST_BOOT_NETWORK: &str = "etc/coreos-firstboot-network/";

#[derive(Debug, Serialize)]
pub(crate) struct Inspection {
    pub(crate) kind: &'static str,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// Number of files whose digest matches the ISO's list of digests; `None` if the ISO
    /// has no list, and for a ramdisk or a UKI.
    pub(crate) verified_files: Option<usize>,
    /// What is damaged or missing outside the ramdisk.
    pub(crate) faults: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iso: Option<IsoContent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uki: Option<UkiContent>,
    pub(crate) ramdisk: RamdiskContent,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct RamdiskContent {
    pub(crate) packing: Vec<&'static str>,
    pub(crate) unpacked_bytes: u64,
    pub(crate) unpacked_sha256: String,
    /// Whether the ramdisk has the member that the builder writes last.
    pub(crate) complete: bool,
    pub(crate) kernel_release: Option<String>,
    /// What the builder recorded in [`BUILD_FACTS`].
    pub(crate) build: Option<serde_json::Value>,
    pub(crate) init_bytes: Option<u64>,
    pub(crate) modules: Vec<Member>,
    pub(crate) firmware: Vec<Member>,
    pub(crate) configuration: Vec<Member>,
    /// Programs for users who log in to a machine in rescue.
    pub(crate) rescue_layer: Vec<Member>,
    /// What coreos-installer or image-customization-controller added.
    pub(crate) ignition: Vec<Member>,
    /// Certificate authorities that the agent trusts.
    pub(crate) authorities: Vec<AuthorityFile>,
    pub(crate) other_files: Vec<Member>,
    /// Hosts whose network is in the ramdisk.
    pub(crate) hosts: Vec<HostContent>,
    /// What is missing or damaged in the ramdisk.
    pub(crate) faults: Vec<String>,
    /// The module index, until all modules are known.
    #[serde(skip)]
    index: Option<IndexContent>,
}

#[derive(Debug, Serialize)]
pub(crate) struct HostContent {
    pub(crate) file: String,
    pub(crate) host_name: Option<String>,
    /// Addresses that identify the machine. If there are none, any machine matches.
    pub(crate) macs: Vec<String>,
    /// The kind of the description: `nmstate`, `network_data` or `none`.
    pub(crate) kind: &'static str,
    pub(crate) root_device_hints: Option<Metal3Hints>,
    /// The plan, in the form that `landfall-agent plan-network --json` prints.
    pub(crate) plan: NetworkPlan,
}

/// A file of certificate authorities.
#[derive(Debug, Serialize)]
pub(crate) struct AuthorityFile {
    pub(crate) path: String,
    pub(crate) certificates: usize,
    pub(crate) sha256: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Member {
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// Inspects a ramdisk, an ISO or a UKI.
pub(crate) fn inspect(path: &Path) -> Result<Inspection> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    // An ISO that holds a CoreOS disk image may be too large for memory, so an ISO is not
    // read as a whole.
    if is_iso(&mut file) {
        return iso::inspect(path, file);
    }
    let bytes = path_error::read_bounded(path, MAX_FILE_BYTES.into())?;
    let sha256 = digest_writer::sha256(&bytes);
    let size = bytes.len() as u64;
    if bytes.is_empty() {
        bail!(
            "{} is empty, expected a ramdisk, an ISO or a UKI",
            path.display()
        );
    }
    let (uki, ramdisk_bytes) = match uki::read(&bytes) {
        Some((content, ramdisk)) => (Some(content), ramdisk),
        None => (None, &bytes[..]),
    };
    let ramdisk = ramdisk(ramdisk_bytes)
        .with_context(|| format!("{}: expected a ramdisk, an ISO or a UKI", path.display()))?;
    Ok(Inspection {
        kind: match uki {
            Some(_) => "uki",
            None => ramdisk.kind(),
        },
        bytes: size,
        sha256,
        verified_files: None,
        faults: Vec::new(),
        iso: None,
        uki,
        ramdisk,
    })
}

impl Inspection {
    /// Number of faults inside and outside the ramdisk.
    pub(crate) fn fault_count(&self) -> usize {
        self.faults.len() + self.ramdisk.faults.len()
    }
}

impl RamdiskContent {
    /// Returns `ramdisk` for a whole ramdisk. For an archive that boots only after a
    /// whole ramdisk, returns `hosts` if `landfall-image hosts` made it, and `ignition`
    /// if `coreos-installer pxe ignition wrap` or `pxe network wrap` made it.
    fn kind(&self) -> &'static str {
        let groups = [
            &self.modules,
            &self.firmware,
            &self.configuration,
            &self.rescue_layer,
            &self.other_files,
        ];
        let has_files = groups.iter().any(|members| !members.is_empty());
        match self.init_bytes.is_some() || self.complete || self.build.is_some() || has_files {
            true => "ramdisk",
            false if self.hosts.is_empty() => "ignition",
            false => "hosts",
        }
    }
}

fn ramdisk(file: &[u8]) -> Result<RamdiskContent> {
    let segments = unpack_segments(file, MAX_UNPACKED_BYTES)?;
    let mut content = RamdiskContent::default();
    let mut all = Vec::new();
    for segment in &segments {
        content.packing.push(segment.packing);
        for entry in newc::Reader::new(&segment.archive) {
            add(&mut content, entry?);
        }
        all.extend_from_slice(&segment.archive);
    }
    find_rescue_layer(&mut content);
    find_missing_modules(&mut content);
    content.unpacked_bytes = all.len() as u64;
    content.unpacked_sha256 = digest_writer::sha256(&all);
    if content.kind() != "ramdisk" {
        if file.iter().all(|&byte| byte == 0) {
            content.faults.push("there are only zeros".to_owned());
        }
        return Ok(content);
    }
    if content.init_bytes.is_none() {
        content
            .faults
            .push("there is no /init: the kernel cannot start it".to_owned());
    }
    if !content.complete {
        content.faults.push(format!(
            "there is no /{COMPLETE_MARKER}: the ramdisk is cut off or was not made by landfall-image"
        ));
    }
    Ok(content)
}

fn add(content: &mut RamdiskContent, entry: newc::Entry<'_>) {
    let name = entry.name;
    if !entry.is_file() {
        return;
    }
    let member = Member {
        path: name.to_owned(),
        bytes: entry.data.len() as u64,
    };
    if name == "init" {
        content.init_bytes = Some(member.bytes);
    } else if name == COMPLETE_MARKER {
        content.complete = true;
    } else if name == BUILD_FACTS {
        content.build = serde_json::from_slice(entry.data).ok();
    } else if name.starts_with("lib/modules/") && name.ends_with(INDEX_NAME) {
        match IndexContent::parse(&String::from_utf8_lossy(entry.data)) {
            Ok(index) => content.index = Some(index),
            Err(error) => content.faults.push(error.to_string()),
        }
    } else if name.starts_with("lib/modules/") && name.ends_with(LEFT_OUT_NAME) {
        if let Err(error) = LeftOut::parse(&String::from_utf8_lossy(entry.data)) {
            content.faults.push(error.to_string());
        }
    } else if name.starts_with("lib/modules/") {
        content.modules.push(member);
    } else if name.starts_with("lib/firmware/") {
        content.firmware.push(member);
    } else if is_host(&entry) {
        host(content, name, entry.data);
    } else if name == IGNITION_CONFIG || name.starts_with(FIRST_BOOT_NETWORK) {
        content.ignition.push(member);
    } else if matches!(name, LIVE_STAMP | COREOS_FEATURES) {
        // Every ramdisk has them.
    } else if name.starts_with("etc/") {
        if is_authority(&entry) {
            authority(content, name, entry.data);
        }
        content.configuration.push(member);
    } else {
        content.other_files.push(member);
    }
}

/// Moves the files of the rescue layer to a list of their own. The builder records
/// their paths. This runs last, because the files are all over the tree and the
/// record is in the middle of the archive.
fn find_rescue_layer(content: &mut RamdiskContent) {
    let noted = content.build.as_ref().map(|build| &build["rescue_layer"]);
    let noted = noted.and_then(|paths| paths.as_array());
    let noted: Vec<&str> = noted
        .into_iter()
        .flatten()
        .filter_map(|path| path.as_str())
        .collect();
    let of_layer = |member: &mut Member| noted.contains(&member.path.as_str());
    let found: Vec<Member> = content.other_files.extract_if(.., of_layer).collect();
    for path in noted {
        if !found.iter().any(|member| member.path == path) {
            let fault = format!("the rescue layer has no {path}: nobody can log in");
            content.faults.push(fault);
        }
    }
    content.rescue_layer = found;
}

fn is_host(entry: &newc::Entry<'_>) -> bool {
    let name = entry.name.strip_prefix(embedded::DIRECTORY);
    entry.is_file() && name.is_some_and(|name| name.ends_with(embedded::SUFFIX))
}

/// A host in a later archive replaces a host in an earlier archive under the same
/// file name.
fn host(content: &mut RamdiskContent, name: &str, bytes: &[u8]) {
    content.hosts.retain(|host| host.file != name);
    let read = EmbeddedHost::from_json(&String::from_utf8_lossy(bytes));
    let host = match read {
        Ok(host) => host,
        Err(error) => return content.faults.push(format!("{name}: {error}")),
    };
    let plan = host.plan().unwrap_or_else(|error| {
        let faults = error.lines().into_iter();
        let faults = faults.map(|fault| format!("{name}: {fault}"));
        content.faults.extend(faults);
        NetworkPlan::default()
    });
    content.hosts.push(HostContent {
        file: name.to_owned(),
        host_name: host.host_name,
        macs: host.macs.iter().map(MacAddr::to_string).collect(),
        kind: host.document.kind(),
        root_device_hints: host.root_device_hints,
        plan,
    });
}

fn is_authority(entry: &newc::Entry<'_>) -> bool {
    entry.is_file() && entry.name.starts_with("etc/") && entry.name.ends_with(".pem")
}

/// A file in a later archive of the ramdisk replaces an earlier file with the same path.
fn authority(content: &mut RamdiskContent, name: &str, bytes: &[u8]) {
    content.authorities.retain(|file| file.path != name);
    content.authorities.push(AuthorityFile {
        path: name.to_owned(),
        certificates: authorities::count(bytes),
        sha256: digest_writer::sha256(bytes),
    });
}

/// Compares the index with the modules. This runs last: the modules may be in a later
/// archive of the ramdisk than the index.
fn find_missing_modules(content: &mut RamdiskContent) {
    let Some(index) = content.index.take() else {
        return;
    };
    for module in &index.modules {
        let path = format!("lib/modules/{}/{}", index.kernel_release, module.path);
        if !content.modules.iter().any(|member| member.path == path) {
            content
                .faults
                .push(format!("the module index names {path}, which is missing"));
        }
    }
    content.kernel_release = Some(index.kernel_release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = newc::Writer::new(Vec::new());
        for (name, data) in files {
            let header = newc::Header {
                mode: 0o100_644,
                ..Default::default()
            };
            writer
                .member(name, header, data.len() as u64, data.as_bytes())
                .unwrap();
        }
        writer.finish().unwrap().0
    }

    #[test]
    fn faults_of_a_ramdisk_are_reported() {
        let index = "landfall-module-index 1\nkernel 6.1\nmodule a kernel/a.ko\nmodule b kernel/b.ko\nend\n";
        let content = ramdisk(&archive(&[
            ("lib/modules/6.1/kernel/a.ko", "x"),
            ("lib/modules/6.1/landfall.index", index),
            ("lib/modules/6.1/landfall.left-out", "landfall-left-out 1\n"),
            ("lib/firmware/f.bin", "xx"),
            ("etc/landfall/build.json", "{\"format\":1}"),
            ("etc/landfall/ca.pem", "-----BEGIN CERTIFICATE-----"),
            ("hello", ""),
        ]))
        .unwrap();
        let expected = [
            "list of left-out drivers line 2: expected `end`: the text is cut off",
            "the module index names lib/modules/6.1/kernel/b.ko, which is missing",
            "there is no /init: the kernel cannot start it",
            "there is no /etc/landfall/complete: the ramdisk is cut off or was not made by landfall-image",
        ];
        assert_eq!(content.faults, expected);
        assert_eq!(content.kernel_release.as_deref(), Some("6.1"));
        let counts = [
            &content.modules,
            &content.firmware,
            &content.configuration,
            &content.other_files,
        ]
        .map(Vec::len);
        assert_eq!(counts, [1, 1, 1, 1]);
        let authorities = &content.authorities[0];
        assert_eq!(authorities.path, "etc/landfall/ca.pem");
        assert_eq!(authorities.certificates, 1);
        assert_eq!(authorities.sha256.len(), 64);
        assert_eq!(content.build.unwrap()["format"], 1);
    }

    #[test]
    fn the_rescue_layer_is_shown_and_must_be_whole() {
        let facts = r#"{"rescue_layer": ["bin/busybox", "usr/sbin/dropbear"]}"#;
        let content = ramdisk(&archive(&[
            ("bin/busybox", "x"),
            ("etc/landfall/build.json", facts),
            ("usr/other", ""),
        ]))
        .unwrap();
        let paths = |members: &[Member]| -> Vec<String> {
            members.iter().map(|member| member.path.clone()).collect()
        };
        assert_eq!(paths(&content.rescue_layer), ["bin/busybox"]);
        assert_eq!(paths(&content.other_files), ["usr/other"]);
        let expected = "the rescue layer has no usr/sbin/dropbear: nobody can log in";
        assert_eq!(content.faults[0], expected);
    }

    #[test]
    fn unknown_files_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (bytes, expected) in [
            ("", "is empty, expected a ramdisk, an ISO or a UKI"),
            (
                "hello",
                "expected a ramdisk, an ISO or a UKI: ramdisk at byte 0: expected a newc cpio archive, gzip, xz, zstd, lz4, bzip2 or lzma",
            ),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = format!("{:#}", inspect(&path).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
