//! Which formats of images may be written, and whether an image is what its
//! owner said. An image that is read in another format than the one meant can
//! be made to name files of the machine that reads it; here it could only name
//! its own bytes, but what Ironic's operator forbids is forbidden.

use std::fmt;

use crate::disk::image_head;
use crate::disk::qcow2::header::MAGIC;
use crate::failure::{Class, Failure, Result};

/// A format that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The bytes of the disk.
    Raw,
    /// See `qcow2`.
    Qcow2,
}

impl Format {
    /// By an unpacked image's first bytes.
    ///
    /// # Errors
    /// If they are those of a format that is not written; or of another format
    /// as well: whoever reads it next may take it for that.
    pub fn of(start: &[u8]) -> Result<Self> {
        if !start.starts_with(MAGIC) {
            return image_head::refuse_foreign(start).map(|()| Self::Raw);
        }
        match image_head::second_format(start) {
            Some(other) => Err(Failure::new(
                Class::InvalidImage,
                format!("the image is more than one thing: a qcow2 image and {other}"),
            )),
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

/// What is permitted.
#[derive(Debug, Clone, Default)]
pub struct FormatPolicy {
    /// What the image is said to be (`disk_format`).
    pub declared: Option<String>,
    /// The formats that may be written; all, if it is not given.
    pub permitted: Option<Vec<String>>,
}

impl FormatPolicy {
    /// Fails if an image of this format must not be written.
    ///
    /// # Errors
    /// With what was expected.
    pub fn check(&self, found: Format) -> Result<()> {
        let declared = self.declared.as_deref().unwrap_or(UNKNOWN);
        // A raw disk is called by its table, too.
        let names: &[&str] = match found {
            Format::Raw => &["raw", "gpt"],
            Format::Qcow2 => &["qcow2"],
        };
        if declared != UNKNOWN && !names.contains(&declared) {
            return Err(refused(format!(
                "expected an image of format {declared}, found {found}"
            ))
            .hint("set the image's disk_format to what it is"));
        }
        // Nobody can be harmed by the bytes of a disk that were called so.
        let called_raw = found == Format::Raw && declared != UNKNOWN;
        let listed = self
            .permitted
            .as_ref()
            .is_none_or(|list| list.iter().any(|format| names.contains(&format.as_str())));
        if called_raw || listed {
            return Ok(());
        }
        let list = self.permitted.as_deref().unwrap_or_default().join(", ");
        Err(refused(format!(
            "images of format {found} are not permitted ({list})"
        ))
        .hint("permitted_image_formats in Ironic's configuration says which are"))
    }
}

/// What Ironic says of an image whose format nobody told it.
const UNKNOWN: &str = "unknown";

fn refused(details: String) -> Failure {
    Failure::new(Class::InvalidImage, details)
}

#[cfg(test)]
mod tests {
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

    /// Called by its name, and not "raw" because it is nothing else.
    #[test]
    fn what_is_not_written_is_refused_whatever_was_declared() {
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
                // The table of the disk inside, until an MBR points to it.
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
