//! Decides which image formats may be written, and whether an image has the format
//! that was declared for it.
//!
//! If a program reads an image in the wrong format, the image can make the program open
//! files of the machine on which it runs. The agent never opens such files, but it
//! still rejects the formats that Ironic's operator forbids.

use std::fmt;

use landfall_report::failure::{Failure, Result};

use crate::image::image_head;
use crate::image::qcow2::header::MAGIC;

/// An image format that the agent can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Raw,
    Qcow2,
}

impl Format {
    /// Detects the format from the first bytes of an unpacked image.
    ///
    /// # Errors
    /// If the agent cannot write this format, or if the bytes also match another
    /// format, because the next program that reads the image may read it in that other
    /// format.
    pub fn of(start: &[u8]) -> Result<Self> {
        if !start.starts_with(MAGIC) {
            return image_head::refuse_foreign(start).map(|()| Self::Raw);
        }
        match image_head::second_format(start) {
            Some(other) => Err(Failure::invalid_image(format!(
                "the image matches more than one format: a qcow2 image and {other} -- find out where it comes from, or make it again with qemu-img convert"
            ))),
            None => Ok(Self::Qcow2),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        })
    }
}

#[derive(Debug, Clone, Default)]
pub struct FormatPolicy {
    /// The image's `disk_format` in Ironic.
    pub declared: Option<String>,
    /// The formats that may be written. `None` permits all.
    pub permitted: Option<Vec<String>>,
}

impl FormatPolicy {
    /// Fails if an image of this format must not be written.
    pub fn check(&self, found: Format) -> Result<()> {
        let declared = self.declared.as_deref().unwrap_or(UNKNOWN);
        // Ironic also uses the name of the partition table for a raw image.
        let names: &[&str] = match found {
            Format::Raw => &["raw", "gpt"],
            Format::Qcow2 => &["qcow2"],
        };
        if declared != UNKNOWN && !names.contains(&declared) {
            return Err(Failure::invalid_image(format!(
                "expected an image of format {declared}, found {found}"
            ))
            .hint("set the image's disk_format to its real format"));
        }
        // The list of permitted formats does not apply to an image that was declared
        // raw and is raw, because such an image cannot refer to other files.
        let called_raw = found == Format::Raw && declared != UNKNOWN;
        let listed = self
            .permitted
            .as_ref()
            .is_none_or(|list| list.iter().any(|format| names.contains(&format.as_str())));
        if called_raw || listed {
            return Ok(());
        }
        let list = self.permitted.as_deref().unwrap_or_default().join(", ");
        Err(Failure::invalid_image(format!(
            "images of format {found} are not permitted ({list})"
        ))
        .hint("use an image of a permitted format, or add this one to permitted_image_formats in Ironic's configuration"))
    }
}

/// What Ironic sends as `disk_format` if nobody has set it for the image.
const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use landfall_report::failure::Class;

    use super::*;

    fn policy(declared: Option<&str>, permitted: &[&str]) -> FormatPolicy {
        FormatPolicy {
            declared: declared.map(str::to_owned),
            permitted: Some(permitted.iter().map(|&name| name.to_owned()).collect()),
        }
    }

    #[test]
    fn declared_and_permitted() {
        let usual = &["raw", "gpt", "qcow2"][..];
        for (declared, permitted, found, word) in [
            (Some("raw"), usual, Format::Raw, None),
            (Some("qcow2"), usual, Format::Qcow2, None),
            (None, usual, Format::Qcow2, None),
            (Some("unknown"), usual, Format::Qcow2, None),
            (Some("gpt"), &["qcow2"], Format::Raw, None),
            (Some("raw"), &["qcow2"], Format::Raw, None),
            (None, &["gpt"], Format::Raw, None),
            (None, &["qcow2"], Format::Raw, Some("not permitted")),
            (
                Some("qcow2"),
                &["raw"],
                Format::Qcow2,
                Some("not permitted"),
            ),
            (
                Some("unknown"),
                &["raw"],
                Format::Qcow2,
                Some("not permitted"),
            ),
            (Some("raw"), usual, Format::Qcow2, Some("expected an image")),
            (Some("qcow2"), usual, Format::Raw, Some("expected an image")),
            (Some("vmdk"), usual, Format::Raw, Some("expected an image")),
        ] {
            let outcome = policy(declared, permitted).check(found);
            match (outcome, word) {
                (Ok(()), None) => {}
                (Err(failure), Some(word)) => {
                    assert_eq!(failure.class, Class::InvalidImage);
                    assert!(failure.details.contains(word), "{failure}");
                }
                other => panic!("{declared:?} {permitted:?} {found}: {other:?}"),
            }
        }
        assert_eq!(FormatPolicy::default().check(Format::Qcow2), Ok(()));
    }

    /// The message contains the name of the format. Content that matches no known format
    /// counts as raw.
    #[test]
    fn an_unsupported_format_is_rejected_whatever_was_declared() {
        let failure = Format::of(b"KDMV\x01\0\0\0").unwrap_err();
        assert!(failure.details.contains("VMDK"), "{failure}");
        assert!(failure.hint.is_some());
        assert_eq!(Format::of(&[0; 4096]), Ok(Format::Raw));
    }

    #[test]
    fn two_formats_at_once_are_refused() {
        let mut start = vec![0; 64 << 10];
        start[..4].copy_from_slice(MAGIC);
        assert_eq!(Format::of(&start), Ok(Format::Qcow2));
        for (place, magic) in [
            (32769, &b"CD001"[..]),
            (0x40, b"\x7f\x10\xda\xbe"),
            (512, b"EFI PART"),
            (4096, b"EFI PART"),
            (257, b"ustar"),
        ] {
            let mut both = start.clone();
            both[place..place + magic.len()].copy_from_slice(magic);
            if magic == b"EFI PART" {
                // Without an MBR this can be the table of the disk inside the qcow2
                // file.
                assert_eq!(Format::of(&both), Ok(Format::Qcow2));
                both[510..512].copy_from_slice(&[0x55, 0xaa]);
            }
            let failure = Format::of(&both).unwrap_err();
            assert!(failure.details.contains("more than one"), "{failure}");
        }
        let mut both = start.clone();
        both[450] = 0x83;
        both[510..512].copy_from_slice(&[0x55, 0xaa]);
        assert!(Format::of(&both).is_err());
    }
}
