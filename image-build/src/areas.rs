//! Describes the two areas of a medium that a server can overwrite in place for
//! one host.
//!
//! ISO 9660 keeps each of these files in one piece. A server can therefore replace
//! their bytes without rebuilding the image, and even without copying it:
//!
//! * The embed area is one more ramdisk: a newc cpio archive, then zeros. An area
//!   of zeros alone is valid too, because the kernel skips zeros.
//! * The kernel arguments area is a GRUB script of one line, `set kargs="..."`,
//!   then newlines.
//!
//! Secure Boot verifies neither area: GRUB checks kernels only.

use serde::{Deserialize, Serialize};

use crate::grub_cfg;
use crate::kernel_args::KernelArgs;

/// Path of the JSON file that describes the areas.
pub(crate) const DESCRIPTION_PATH: &str = "boot/landfall-areas.json";
pub(crate) const EMBED_PATH: &str = "boot/embed.img";
pub(crate) const KARGS_PATH: &str = "boot/grub/kargs.cfg";
/// In bytes: two sectors of a CD, enough for any command line that the kernel
/// accepts.
pub(crate) const KARGS_SIZE: usize = 4096;

/// The content of [`DESCRIPTION_PATH`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Areas {
    /// The version of this description.
    pub(crate) format: u32,
    pub(crate) kargs: KargsArea,
    pub(crate) embed: EmbedArea,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KargsArea {
    pub(crate) path: String,
    pub(crate) size: usize,
    /// The text before the arguments.
    pub(crate) before: String,
    /// The text after the arguments. The rest of the area is newlines.
    pub(crate) after: String,
    /// The arguments that the medium was built with.
    pub(crate) default: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EmbedArea {
    pub(crate) path: String,
    pub(crate) size: usize,
}

impl Areas {
    pub(crate) fn new(arguments: &KernelArgs, embed_size: usize) -> Self {
        Self {
            format: 1,
            kargs: KargsArea {
                path: KARGS_PATH.to_owned(),
                size: KARGS_SIZE,
                before: "set kargs=\"".to_owned(),
                after: "\"\n".to_owned(),
                default: arguments.to_string(),
            },
            embed: EmbedArea {
                path: EMBED_PATH.to_owned(),
                size: embed_size,
            },
        }
    }
}

/// The content of the kernel arguments area. The arguments always fit: their
/// maximum length is far below the size of the area.
pub(crate) fn kargs_area(arguments: &KernelArgs) -> Vec<u8> {
    let mut area = grub_cfg::set_kargs(arguments).into_bytes();
    area.resize(KARGS_SIZE, b'\n');
    area
}

/// Returns the current arguments of a kernel arguments area.
pub(crate) fn read_kargs(area: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(area).ok()?.trim_end_matches('\n');
    text.strip_prefix("set kargs=\"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_args::MAX_BYTES;

    #[test]
    fn the_area_keeps_its_size_and_reads_back() {
        for text in [String::new(), "a=b c".to_owned(), "x".repeat(MAX_BYTES)] {
            let arguments = KernelArgs::exactly(std::slice::from_ref(&text)).unwrap();
            let area = kargs_area(&arguments);
            assert_eq!(area.len(), KARGS_SIZE);
            assert_eq!(read_kargs(&area), Some(text.as_str()));
        }
        for area in [&b"set kargs=\"a"[..], b"", b"\xff", b"kargs=\"a\"\n"] {
            assert_eq!(read_kargs(area), None);
        }
    }

    #[test]
    fn the_description_says_what_the_area_looks_like() {
        let arguments = KernelArgs::exactly(&["a=b".into()]).unwrap();
        let areas = Areas::new(&arguments, 1024);
        let line = format!(
            "{}{}{}",
            areas.kargs.before, areas.kargs.default, areas.kargs.after
        );
        assert!(kargs_area(&arguments).starts_with(line.as_bytes()));
        let json = serde_json::to_string(&areas).unwrap();
        assert_eq!(serde_json::from_str::<Areas>(&json).unwrap(), areas);
    }
}
