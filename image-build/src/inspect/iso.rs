//! Reads what an ISO holds in addition to its ramdisk.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use landfall_initramfs::compress::{Segment, unpack_segments};
use landfall_initramfs::kernel_image::KernelImage;
use landfall_initramfs::newc;
use landfall_media_formats::areas::{Areas, KargsArea, RamdiskArea};
use landfall_media_formats::coreos_image::{self, CoreosImage};
use landfall_media_formats::iso9660::{self, Iso, IsoError};
use landfall_media_formats::layout::{KERNEL, RAMDISK};
use serde::Serialize;

use super::{
    Inspection, MAX_FILE_BYTES, RamdiskContent, authority, host, is_authority, is_host, ramdisk,
};
use crate::areas::DESCRIPTION_PATH;
use crate::checksums;
use crate::iso_command::digest;

/// In bytes: how much of the kernel is read at most. The version of an arm64 kernel can
/// be anywhere in the file. Debian's arm64 kernels are 40 MB.
const KERNEL_START_BYTES: u32 = 256 << 20;
/// In bytes: the limit for the unpacked size of the archives in one area.
const MAX_AREA_UNPACKED: usize = 256 << 20;

#[derive(Debug, Serialize)]
pub(crate) struct IsoContent {
    pub(crate) label: String,
    pub(crate) volume_uuid: String,
    pub(crate) kernel_release: String,
    pub(crate) kernel_is_signed: bool,
    /// The arguments that the kernel arguments area holds now.
    pub(crate) kernel_args: Option<String>,
    /// Whether `kernel_args` still are the arguments with which the ISO was built.
    pub(crate) kernel_args_are_default: bool,
    pub(crate) embed_size: u64,
    /// Paths of the files in the embed area.
    pub(crate) embedded_files: Vec<String>,
    /// Size of the area for coreos-installer and image-customization-controller; `None`
    /// if an older builder made the ISO.
    pub(crate) ignition_size: Option<u64>,
    /// Paths of the files in the area for coreos-installer.
    pub(crate) ignition_files: Vec<String>,
    /// The CoreOS image on the ISO, which the agent writes if the node's settings name no
    /// image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) coreos_image: Option<CoreosImage>,
}

pub(crate) fn is_iso(file: &mut File) -> bool {
    let mut mark = iso9660::MARK;
    mark.fill(0);
    let start = file.seek(SeekFrom::Start(iso9660::VOLUME_OFFSET));
    start.and_then(|_| file.read_exact(&mut mark)).is_ok() && mark == iso9660::MARK
}

pub(super) fn inspect(path: &Path, file: File) -> Result<Inspection> {
    let mut iso = Iso::open(file)?;
    if let Err(error @ IsoError::NotFound(_)) = iso.find(DESCRIPTION_PATH) {
        return Err(error)
            .with_context(|| format!("{}: not an ISO of landfall-image", path.display()));
    }
    let mut verdict = checksums::verify(path, &mut iso)?;
    // On a USB stick, digest only as many bytes as the ISO has.
    let (size, sha256) = digest(path, verdict.size)?;
    let mut inspection = Inspection {
        kind: "iso",
        bytes: size,
        sha256,
        verified_files: verdict.good_files,
        faults: Vec::new(),
        iso: None,
        uki: None,
        ramdisk: RamdiskContent::default(),
    };
    let image = iso.read(RAMDISK, MAX_FILE_BYTES);
    match image.map_err(Into::into).and_then(|image| ramdisk(&image)) {
        Ok(ramdisk) => inspection.ramdisk = ramdisk,
        Err(error) => verdict.faults.push(format!("{RAMDISK}: {error:#}")),
    }
    match content(&mut iso, &mut verdict.faults) {
        Ok((content, added)) => {
            inspection.iso = Some(content);
            // The kernel unpacks the archives in the areas after the ramdisk, so their
            // files replace files of the ramdisk.
            for segment in &added {
                for entry in newc::Reader::new(&segment.archive).flatten() {
                    if is_host(&entry) {
                        host(&mut inspection.ramdisk, entry.name, entry.data);
                    } else if is_authority(&entry) {
                        authority(&mut inspection.ramdisk, entry.name, entry.data);
                    }
                }
            }
        }
        Err(error) => verdict.faults.push(format!("{error:#}")),
    }
    inspection.faults = verdict.faults;
    Ok(inspection)
}

/// Reads what the ISO holds in addition to its ramdisk. Also returns the archives in the
/// areas, in the order in which the kernel unpacks them.
fn content(iso: &mut Iso<File>, faults: &mut Vec<String>) -> Result<(IsoContent, Vec<Segment>)> {
    let (areas, _) = Areas::of(iso)?;
    let kernel = KernelImage::parse(&iso.read_start(KERNEL, KERNEL_START_BYTES)?);
    let kernel =
        kernel.map_err(|expected| anyhow::anyhow!("{KERNEL}: expected {expected}, found none"))?;
    let kernel_args = kernel_args(iso, &areas.kargs, faults)?;
    let mut segments = Vec::new();
    let embedded_files = unpack(iso, &areas.embed, &mut segments, faults)?;
    let ignition_files = match &areas.ignition {
        Some(area) => unpack(iso, area, &mut segments, faults)?,
        None => Vec::new(),
    };
    let content = IsoContent {
        label: iso.label.clone(),
        volume_uuid: iso.uuid.clone(),
        kernel_release: kernel.release,
        kernel_is_signed: kernel.is_signed,
        kernel_args_are_default: kernel_args.as_deref() == Some(areas.kargs.default.as_str()),
        kernel_args,
        embed_size: areas.embed.size,
        embedded_files,
        ignition_size: areas.ignition.map(|area| area.size),
        ignition_files,
        coreos_image: coreos_image_on(iso)?,
    };
    Ok((content, segments))
}

/// The current kernel arguments. coreos-installer writes any text, so characters that
/// GRUB does not pass on unchanged become faults.
fn kernel_args(
    iso: &mut Iso<File>,
    area: &KargsArea,
    faults: &mut Vec<String>,
) -> Result<Option<String>> {
    let file = area.read(iso)?;
    let Some(arguments) = area.arguments(&file) else {
        faults.push(format!(
            "{}: expected kernel arguments as {DESCRIPTION_PATH} describes them, found other content: the kernel may start without them -- restore those of the build with `landfall-image customize --reset`",
            area.path
        ));
        return Ok(None);
    };
    // GRUB's lib/cmdline.c puts a backslash before each of these characters.
    if let Some(bad) = arguments.chars().find(|c| matches!(c, '"' | '\'' | '\\')) {
        faults.push(format!(
            "{}: kernel arguments contain `{bad}`: GRUB does not pass quotes and backslashes on unchanged",
            area.path
        ));
    }
    Ok(Some(arguments.to_owned()))
}

/// Unpacks an area. Returns the paths of its files.
fn unpack(
    iso: &mut Iso<File>,
    area: &RamdiskArea,
    segments: &mut Vec<Segment>,
    faults: &mut Vec<String>,
) -> Result<Vec<String>> {
    let bytes = area.read(iso)?;
    let mut files = Vec::new();
    let added = match unpack_segments(&bytes, MAX_AREA_UNPACKED) {
        Ok(added) => added,
        Err(error) => {
            let error = anyhow::Error::from(error);
            faults.push(format!("{}: {error:#}", area.path));
            return Ok(files);
        }
    };
    for segment in &added {
        for entry in newc::Reader::new(&segment.archive) {
            match entry {
                Ok(entry) if entry.is_file() => files.push(entry.name.to_owned()),
                Ok(_) => {}
                Err(error) => faults.push(format!("{}: {error}", area.path)),
            }
        }
    }
    segments.extend(added);
    Ok(files)
}

/// Reads the description of the CoreOS disk image on the ISO, and checks the size of the
/// image.
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
