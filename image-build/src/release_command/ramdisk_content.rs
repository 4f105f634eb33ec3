//! What is in the finished ramdisk, for the SBOM.

use std::path::Path;

use anyhow::{Context as _, Result};
use landfall_initramfs::compress::unpack_segments;
use landfall_initramfs::kernel_source::Kernel;
use landfall_initramfs::modinfo::ModInfo;
use landfall_initramfs::{digest_writer, newc, path_error};

/// In bytes: the limits of a ramdisk, which the builder has just written.
const MAX_FILE_BYTES: u64 = 2 << 30;
const MAX_UNPACKED_BYTES: usize = 4 << 30;

/// A file of the ramdisk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) path: String,
    pub(super) sha256: String,
    /// The licence of a kernel module as its `.modinfo` states it, such as `GPL v2`.
    pub(super) license: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct RamdiskContent {
    pub(super) modules: Vec<Member>,
    /// Paths below lib/firmware.
    pub(super) firmware: Vec<Member>,
}

impl RamdiskContent {
    pub(super) fn read(ramdisk: &Path, kernel: &Kernel) -> Result<Self> {
        let bytes = path_error::read_bounded(ramdisk, MAX_FILE_BYTES)?;
        let modules = format!("lib/modules/{}/", kernel.release);
        let mut content = Self::default();
        for segment in unpack_segments(&bytes, MAX_UNPACKED_BYTES)? {
            for entry in newc::Reader::new(&segment.archive) {
                let entry = entry?;
                if !entry.is_file() {
                    continue;
                }
                let member = |path: &str, license| Member {
                    path: path.to_owned(),
                    sha256: digest_writer::sha256(entry.data),
                    license,
                };
                if let Some(path) = entry.name.strip_prefix(&modules)
                    && is_module(path)
                {
                    let info = ModInfo::of_file(&kernel.modules.join(path));
                    let info =
                        info.with_context(|| format!("cannot read module {path} for the SBOM"))?;
                    content.modules.push(member(path, info.license));
                } else if let Some(path) = entry.name.strip_prefix("lib/firmware/") {
                    content.firmware.push(member(path, None));
                }
            }
        }
        Ok(content)
    }
}

fn is_module(path: &str) -> bool {
    [".ko", ".ko.xz", ".ko.zst"]
        .iter()
        .any(|ending| path.ends_with(ending))
}
