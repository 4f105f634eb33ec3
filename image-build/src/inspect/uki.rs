//! Reads the single EFI file of `landfall-image uki`.

use landfall_initramfs::unified_image;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct UkiContent {
    pub(crate) is_signed: bool,
    pub(crate) kernel_release: Option<String>,
    pub(crate) kernel_args: Option<String>,
}

/// Returns the facts about a UKI, and its ramdisk; `None` if `file` is no UKI or has no
/// ramdisk.
pub(super) fn read(file: &[u8]) -> Option<(UkiContent, &[u8])> {
    let sections = unified_image::sections(file).ok()?;
    let find = |wanted: &str| {
        let section = { sections.iter() }.find(|(name, _)| name == wanted);
        section.map(|(_, content)| *content)
    };
    let text = |name| find(name).map(|content| String::from_utf8_lossy(content).into_owned());
    let content = UkiContent {
        is_signed: unified_image::is_signed(file).ok()?,
        kernel_release: text(".uname"),
        kernel_args: text(".cmdline"),
    };
    Some((content, find(".initrd")?))
}
