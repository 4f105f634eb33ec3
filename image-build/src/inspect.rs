//! Reads what is in a ramdisk or an ISO.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use landfall_initramfs::build::BUILD_FACTS;
use landfall_initramfs::compress::{Segment, unpack_segments};
use landfall_initramfs::kernel_image::KernelImage;
use landfall_initramfs::{digest_writer, newc, path_error};
use landfall_media_formats::coreos_image::{self, CoreosImage};
use landfall_media_formats::iso9660::{self, Iso, IsoError};
use landfall_module_index::IndexContent;
use landfall_module_index::{COMPLETE_MARKER, INDEX_NAME};
use landfall_network_plan::{EmbeddedHost, MacAddr, Metal3Hints, NetworkPlan, embedded};
use serde::Serialize;

use crate::areas::{self, Areas};
use crate::authorities;
use crate::checksums;
use crate::iso_command::digest;

/// In bytes: the size of the largest ramdisk that the builder reads. A full
/// server ramdisk with all firmware is below 200 MB.
const MAX_FILE_BYTES: u32 = 2 << 30;
const MAX_UNPACKED_BYTES: usize = 4 << 30;
const MAX_DESCRIPTION_BYTES: u32 = 64 << 10;
/// In bytes: how much of the kernel is read. Its version is at most 64 KiB
/// behind the boot header.
const KERNEL_START_BYTES: u32 = 128 << 10;

#[derive(Debug, Serialize)]
pub(crate) struct Inspection {
    pub(crate) kind: &'static str,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// Number of files that have the digest in the medium's list; `None` if there
    /// is no list.
    pub(crate) verified_files: Option<usize>,
    /// What is damaged or missing outside the ramdisk.
    pub(crate) faults: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iso: Option<IsoContent>,
    pub(crate) ramdisk: RamdiskContent,
}

/// What an ISO holds in addition to its ramdisk.
#[derive(Debug, Serialize)]
pub(crate) struct IsoContent {
    pub(crate) label: String,
    pub(crate) volume_uuid: String,
    pub(crate) kernel_release: String,
    pub(crate) kernel_is_signed: bool,
    /// The arguments that the kernel arguments area holds now.
    pub(crate) kernel_args: Option<String>,
    /// Whether the medium was built with these arguments.
    pub(crate) kernel_args_are_default: bool,
    pub(crate) embed_size: usize,
    /// Paths of the files in the embed area.
    pub(crate) embedded_files: Vec<String>,
    /// The image for nodes that do not name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) coreos_image: Option<CoreosImage>,
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
    /// Certificate authorities that the agent trusts.
    pub(crate) authorities: Vec<AuthorityFile>,
    pub(crate) other_files: Vec<Member>,
    /// Hosts whose network is in the ramdisk.
    pub(crate) hosts: Vec<HostContent>,
    /// What is missing or damaged in the ramdisk.
    pub(crate) faults: Vec<String>,
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

/// Inspects a ramdisk or an ISO.
pub(crate) fn inspect(path: &Path) -> Result<Inspection> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    // An ISO with a disk image may be too large for memory, so it is not read as a
    // whole.
    if is_iso(&mut file) {
        return inspect_iso(path, file);
    }
    let bytes = path_error::read_bounded(path, MAX_FILE_BYTES.into())?;
    let sha256 = digest_writer::sha256(&bytes);
    let size = bytes.len() as u64;
    if bytes.is_empty() {
        bail!("{} is empty, expected a ramdisk or an ISO", path.display());
    }
    let ramdisk = ramdisk(&bytes)
        .with_context(|| format!("{}: expected a ramdisk or an ISO", path.display()))?;
    Ok(Inspection {
        kind: if ramdisk.adds_hosts_only() {
            "hosts"
        } else {
            "ramdisk"
        },
        bytes: size,
        sha256,
        verified_files: None,
        faults: Vec::new(),
        iso: None,
        ramdisk,
    })
}

fn inspect_iso(path: &Path, file: File) -> Result<Inspection> {
    let mut iso = Iso::open(file)?;
    if let Err(error @ IsoError::NotFound(_)) = iso.find(areas::DESCRIPTION_PATH) {
        return Err(error)
            .with_context(|| format!("{}: not an ISO of landfall-image", path.display()));
    }
    let mut verdict = checksums::verify(path, &mut iso)?;
    // Of a stick, digest only the part to which the medium was copied.
    let (size, sha256) = digest(path, verdict.size)?;
    let mut inspection = Inspection {
        kind: "iso",
        bytes: size,
        sha256,
        verified_files: verdict.good_files,
        faults: Vec::new(),
        iso: None,
        ramdisk: RamdiskContent::default(),
    };
    let image = iso.read("boot/initrd.img", MAX_FILE_BYTES);
    match image.map_err(Into::into).and_then(|image| ramdisk(&image)) {
        Ok(ramdisk) => inspection.ramdisk = ramdisk,
        Err(error) => verdict.faults.push(format!("boot/initrd.img: {error:#}")),
    }
    match iso_content(&mut iso) {
        Ok((content, embedded)) => {
            inspection.iso = Some(content);
            // The kernel unpacks the embed area after the ramdisk.
            for segment in &embedded {
                for entry in newc::Reader::new(&segment.archive).flatten() {
                    if is_host(&entry) {
                        host(&mut inspection.ramdisk, entry.name, entry.data);
                    }
                }
            }
        }
        Err(error) => verdict.faults.push(format!("{error:#}")),
    }
    inspection.faults = verdict.faults;
    Ok(inspection)
}

impl Inspection {
    /// Number of faults inside and outside the ramdisk.
    pub(crate) fn fault_count(&self) -> usize {
        self.faults.len() + self.ramdisk.faults.len()
    }
}

impl RamdiskContent {
    /// Whether this is the product of `landfall-image hosts`, which must follow a
    /// whole ramdisk.
    fn adds_hosts_only(&self) -> bool {
        let others = [
            &self.modules,
            &self.firmware,
            &self.configuration,
            &self.other_files,
        ];
        let has_others = others.iter().any(|members| !members.is_empty());
        self.init_bytes.is_none() && !self.complete && !has_others && !self.hosts.is_empty()
    }
}

fn is_iso(file: &mut File) -> bool {
    let mut mark = iso9660::MARK;
    mark.fill(0);
    let start = file.seek(SeekFrom::Start(iso9660::VOLUME_OFFSET));
    start.and_then(|_| file.read_exact(&mut mark)).is_ok() && mark == iso9660::MARK
}

/// The disk image on the ISO.
fn coreos_image_on(iso: &mut Iso<File>) -> Result<Option<CoreosImage>> {
    let json = match iso.read(coreos_image::DESCRIPTION, coreos_image::DESCRIPTION_LIMIT) {
        Ok(json) => json,
        Err(IsoError::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let image = CoreosImage::from_json(&json)
        .map_err(|reason| anyhow::anyhow!("{}: {reason}", coreos_image::DESCRIPTION))?;
    let found = iso.find(coreos_image::FILE)?.size;
    ensure!(
        found == image.size,
        "{}: expected {} bytes, found {found}",
        coreos_image::FILE,
        image.size
    );
    Ok(Some(image))
}

/// The areas and the image of an ISO. Also returns the archives in the embed
/// area.
fn iso_content(iso: &mut Iso<File>) -> Result<(IsoContent, Vec<Segment>)> {
    let description = iso.read(areas::DESCRIPTION_PATH, MAX_DESCRIPTION_BYTES)?;
    let areas: Areas =
        serde_json::from_slice(&description).with_context(|| areas::DESCRIPTION_PATH.to_owned())?;
    let kernel = KernelImage::parse(&iso.read_start("boot/vmlinuz", KERNEL_START_BYTES)?);
    let kernel = kernel
        .map_err(|expected| anyhow::anyhow!("boot/vmlinuz: expected {expected}, found none"))?;
    let kargs = iso.read(&areas.kargs.path, MAX_DESCRIPTION_BYTES)?;
    let kernel_args = areas::read_kargs(&kargs).map(str::to_owned);
    let embed = iso.read(&areas.embed.path, 64 << 20)?;
    let mut embedded_files = Vec::new();
    let segments = unpack_segments(&embed, MAX_UNPACKED_BYTES).context("embed area")?;
    for segment in &segments {
        for entry in newc::Reader::new(&segment.archive) {
            let entry = entry?;
            if entry.is_file() {
                embedded_files.push(entry.name.to_owned());
            }
        }
    }
    let content = IsoContent {
        label: iso.label.clone(),
        volume_uuid: iso.uuid.clone(),
        kernel_release: kernel.release,
        kernel_is_signed: kernel.is_signed,
        kernel_args_are_default: kernel_args.as_deref() == Some(areas.kargs.default.as_str()),
        kernel_args,
        embed_size: embed.len(),
        embedded_files,
        coreos_image: coreos_image_on(iso)?,
    };
    Ok((content, segments))
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
    content.unpacked_bytes = all.len() as u64;
    content.unpacked_sha256 = digest_writer::sha256(&all);
    if content.adds_hosts_only() {
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
        index(content, entry.data);
    } else if name.starts_with("lib/modules/") {
        content.modules.push(member);
    } else if name.starts_with("lib/firmware/") {
        content.firmware.push(member);
    } else if is_host(&entry) {
        host(content, name, entry.data);
    } else if name.starts_with("etc/") {
        if name.ends_with(".pem") {
            content.authorities.push(AuthorityFile {
                path: name.to_owned(),
                certificates: authorities::count(entry.data),
                sha256: digest_writer::sha256(entry.data),
            });
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

/// The index is read after all modules: paths in the archive are sorted, and
/// `kernel` comes before `landfall`.
fn index(content: &mut RamdiskContent, bytes: &[u8]) {
    let index = match IndexContent::parse(&String::from_utf8_lossy(bytes)) {
        Ok(index) => index,
        Err(error) => return content.faults.push(error.to_string()),
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
    fn faults_of_a_ramdisk_are_told() {
        let index = "landfall-module-index 1\nkernel 6.1\nmodule a kernel/a.ko\nmodule b kernel/b.ko\nend\n";
        let content = ramdisk(&archive(&[
            ("lib/modules/6.1/kernel/a.ko", "x"),
            ("lib/modules/6.1/landfall.index", index),
            ("lib/firmware/f.bin", "xx"),
            ("etc/landfall/build.json", "{\"format\":1}"),
            ("etc/landfall/ca.pem", "-----BEGIN CERTIFICATE-----"),
            ("hello", ""),
        ]))
        .unwrap();
        let expected = [
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
    fn what_is_neither() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (bytes, expected) in [
            ("", "is empty, expected a ramdisk or an ISO"),
            (
                "hello",
                "expected a ramdisk or an ISO: ramdisk at byte 0: expected a newc cpio archive, gzip, xz or zstd",
            ),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = format!("{:#}", inspect(&path).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
