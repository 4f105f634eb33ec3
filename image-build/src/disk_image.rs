//! Checks by the first 64 KiB of its unpacked content whether a file is a disk image. The
//! agent checks again, and more closely, before it writes the image
//! (`disk/image/image_head.rs` in the agent).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// The number of bytes that are checked: enough for a partition table with any sector
/// size, and for the descriptor of an ISO.
const HEAD: u64 = 64 << 10;
const EXPECTED: &str = "a disk image (raw or qcow2; plain or in gzip, xz, zstd, lz4 or bzip2)";

/// Fails if `file` is not a disk image, plain or packed.
pub(crate) fn check(file: &Path) -> Result<()> {
    let reading = || format!("cannot read {}", file.display());
    let input = BufReader::new(File::open(file).with_context(reading)?);
    let head =
        unpacked_head(input).with_context(|| format!("{}: expected {EXPECTED}", file.display()))?;
    if let Some(found) = fault(&head) {
        bail!("{}: expected {EXPECTED}, found {found}", file.display());
    }
    Ok(())
}

fn unpacked_head(mut input: impl BufRead) -> std::io::Result<Vec<u8>> {
    let start = input.fill_buf()?;
    let mut decoder: Box<dyn Read + '_> = match start {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(input))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::with_buffer(input)?),
        [0x04, 0x22, 0x4d, 0x18, ..] => Box::new(lz4_flex::frame::FrameDecoder::new(input)),
        [b'B', b'Z', b'h', ..] => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
        _ => Box::new(input),
    };
    let mut head = Vec::new();
    decoder.by_ref().take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

/// What is wrong with the file; `None` if it is a disk image.
fn fault(head: &[u8]) -> Option<String> {
    let at = |offset: usize, mark: &[u8]| {
        let rest = head.get(offset..);
        rest.is_some_and(|rest| rest.starts_with(mark))
    };
    if at(0, b"QFI\xfb") {
        return None;
    }
    if at(32769, b"CD001") {
        return Some(
            "an ISO, which boots from a CD or a stick -- give the disk image (metal)".to_owned(),
        );
    }
    let has_gpt = at(512, b"EFI PART") || at(4096, b"EFI PART");
    // The fifth byte of an MBR entry is the partition type; 0 stands for no
    // partition.
    let entries = [446, 462, 478, 494];
    let has_mbr = at(510, &[0x55, 0xaa])
        && entries
            .iter()
            .any(|entry| head.get(entry + 4).is_some_and(|kind| *kind != 0));
    if has_gpt || has_mbr {
        return None;
    }
    Some(match head {
        [] => "nothing".to_owned(),
        _ if head.iter().all(|byte| *byte == 0) => {
            "zeros where its partition table should be".to_owned()
        }
        _ => {
            let start = &head[..head.len().min(16)];
            format!(
                "a file without a partition table that begins with `{}`",
                start.escape_ascii()
            )
        }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write as _;

    /// The smallest disk with a partition.
    pub(crate) fn disk() -> Vec<u8> {
        let mut disk = vec![0; 512];
        disk[446 + 4] = 0x83;
        disk[510..].copy_from_slice(&[0x55, 0xaa]);
        disk
    }

    fn error_of(bytes: &[u8]) -> String {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        match check(file.path()) {
            Ok(()) => String::new(),
            Err(error) => format!("{error:#}"),
        }
    }

    fn packed(program: &str, bytes: &[u8]) -> Vec<u8> {
        use std::process::{Command, Stdio};
        let mut child = Command::new(program)
            .arg("-c")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        child.wait_with_output().unwrap().stdout
    }

    #[test]
    fn disks_in_any_packing() {
        let mut gpt = vec![0; 4096];
        gpt.extend(b"EFI PART");
        for bytes in [disk(), gpt, b"QFI\xfb\0\0\0\x03".to_vec()] {
            assert_eq!(error_of(&bytes), "");
            for program in ["gzip", "xz", "zstd", "bzip2"] {
                assert_eq!(error_of(&packed(program, &bytes)), "", "{program}");
            }
            let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
            lz4.write_all(&bytes).unwrap();
            assert_eq!(error_of(&lz4.finish().unwrap()), "", "lz4");
        }
    }

    #[test]
    fn other_files_are_rejected_with_a_description() {
        let mut iso = vec![0; 32769];
        iso.extend(b"CD001");
        iso[510..512].copy_from_slice(&[0x55, 0xaa]);
        iso[450] = 0xef;
        let mut no_entry = vec![0; 512];
        no_entry[0] = 0xfa;
        no_entry[510..].copy_from_slice(&[0x55, 0xaa]);
        for (bytes, found) in [
            (
                b"apiVersion: v1\n".to_vec(),
                "begins with `apiVersion: v1\\n`",
            ),
            (Vec::new(), "found nothing"),
            (vec![0; 5000], "found zeros where"),
            (iso, "found an ISO"),
            (no_entry, "without a partition table"),
            (packed("gzip", b"text"), "begins with `text`"),
            (
                packed("xz", b"text")[..20].to_vec(),
                "expected a disk image",
            ),
        ] {
            let text = error_of(&bytes);
            assert!(text.contains(found), "{text}");
            assert!(
                text.contains("expected a disk image (raw or qcow2"),
                "{text}"
            );
        }
    }
}
