//! Writes a host's content into the areas of an ISO, in a copy or in place.

use std::fs::File;
use std::io::{self, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use landfall_boot_params::{BootParams, CommandLine};
use landfall_host_media::{BaseIso, HostFile, HostImage, HostVersion, KargsEdit, Piece};
use landfall_initramfs::output_file::OutputFile;
use landfall_initramfs::temporary;
use landfall_network_plan::{EmbeddedHost, embedded};

use super::{Changes, Customized, IMAGE_KEYS, Place, keep_mode};
use crate::epoch;
use crate::lock;
use crate::report::Report;

pub(super) fn customize(
    place: &Place<'_>,
    changes: &Changes,
    report: &Report,
) -> Result<Customized> {
    let file = match place.output {
        Some(_) => lock::to_read(place.base)?,
        None => lock::to_write(place.base)?,
    };
    let base = match changes.version.kargs().reset {
        true => BaseIso::open_to_reset(&file)?,
        false => BaseIso::open(&file)?,
    };
    let version = without_old_image(&base, changes)?;
    let arguments = base.kernel_args(&version)?;
    let files = base.files(&version);
    let hosts: Vec<EmbeddedHost> = files.iter().filter_map(embedded_host).collect();
    report.warnings(&arguments.warnings(&hosts));
    BootParams::from_command_line(&CommandLine::parse(arguments.as_str())).given_image()?;
    let image = base.of_host(&version, epoch::from_environment()?)?;
    let patches = patches(&image);
    match place.output {
        Some(output) => copy(&file, output, place.force, &patches)?,
        None => in_place(&file, place.base, &patches)?,
    }
    Ok(Customized {
        path: place.output.unwrap_or(place.base).to_owned(),
        kind: "iso",
        bytes: image.size(),
        changed_bytes: patches.iter().map(|patch| patch.bytes.len() as u64).sum(),
        kernel_args: Some(arguments.to_string()),
        files: files.into_iter().map(|file| file.path).collect(),
    })
}

/// The host that this file describes, from this customization or from an earlier one.
/// `None` if the file does not describe a host.
fn embedded_host(file: &HostFile) -> Option<EmbeddedHost> {
    if !Path::new(&file.path).starts_with(embedded::DIRECTORY) {
        return None;
    }
    EmbeddedHost::from_json(&String::from_utf8_lossy(&file.bytes)).ok()
}

/// The changes for the base. If they name an image, they also delete the base's arguments
/// that name another image.
fn without_old_image(base: &BaseIso, changes: &Changes) -> Result<HostVersion> {
    let version = changes.version.clone();
    if !changes.names_image {
        return Ok(version);
    }
    let edit = version.kargs().clone();
    let start = KargsEdit {
        reset: edit.reset,
        ..KargsEdit::default()
    };
    let present = base.kernel_args(&HostVersion::default().with_kargs(start))?;
    let is_present = |key: &&str| {
        let mut words = present.as_str().split(' ');
        words.any(|word| word.split('=').next() == Some(*key))
    };
    let delete = IMAGE_KEYS.into_iter().filter(is_present).map(str::to_owned);
    let kept = edit.delete.iter().filter(|text| {
        let key = text.split('=').next().unwrap_or_default();
        !IMAGE_KEYS.contains(&key)
    });
    let delete = kept.cloned().chain(delete).collect();
    Ok(version.with_kargs(KargsEdit { delete, ..edit }))
}

/// Bytes that replace bytes of the base.
#[derive(Debug, PartialEq, Eq)]
struct Patch {
    offset: u64,
    bytes: Vec<u8>,
}

/// Everything in the image that is not from the base. Adjacent pieces are joined, so
/// that each area is written at once.
fn patches(image: &HostImage) -> Vec<Patch> {
    let mut patches: Vec<Patch> = Vec::new();
    for (offset, piece) in image.placed() {
        let bytes = match piece {
            Piece::Base(_) => continue,
            Piece::Own(bytes) => bytes.to_vec(),
            // The cast is lossless: an area has at most 64 MiB.
            Piece::Zeros(len) => vec![0; *len as usize],
        };
        match patches.last_mut() {
            Some(last) if last.offset + last.bytes.len() as u64 == offset => {
                last.bytes.extend(bytes)
            }
            _ => patches.push(Patch { offset, bytes }),
        }
    }
    patches
}

/// Writes a copy. `io::copy` uses copy_file_range(2), which shares the blocks of the
/// base where the file system can.
fn copy(base: &File, output: &Path, force: bool, patches: &[Patch]) -> Result<()> {
    let writing = || format!("cannot write {}", output.display());
    let mut base = base;
    base.rewind().context("cannot read the base")?;
    let mut copy = OutputFile::create(output, force)?;
    keep_mode(base, &mut copy)?;
    io::copy(&mut base, copy.file()).with_context(writing)?;
    for patch in patches {
        let written = copy.file().write_all_at(&patch.bytes, patch.offset);
        written.with_context(writing)?;
    }
    Ok(copy.finish()?)
}

/// Writes into the base itself. After an error, writes the old bytes back. If that fails
/// too, the areas are damaged, and the error says so.
fn in_place(base: &File, path: &Path, patches: &[Patch]) -> Result<()> {
    let writing = || format!("cannot write {}", path.display());
    let mut old = Vec::new();
    for patch in patches {
        let mut bytes = vec![0; patch.bytes.len()];
        base.read_exact_at(&mut bytes, patch.offset)
            .with_context(|| format!("cannot read {}", path.display()))?;
        old.push(Patch {
            offset: patch.offset,
            bytes,
        });
    }
    let put = |patches: &[Patch]| -> io::Result<()> {
        let mut patches = patches.iter();
        patches.try_for_each(|patch| base.write_all_at(&patch.bytes, patch.offset))
    };
    let write = |patches: &[Patch]| put(patches).and_then(|()| base.sync_data());
    temporary::without_interruption(|| {
        // First write the old bytes: if a read-only medium refuses them, it is
        // certainly unchanged. After a failed write of new bytes, reading cannot show
        // what the medium holds, because the page cache may have bytes that the medium
        // has lost.
        let written = match put(&old) {
            Ok(()) => write(patches),
            Err(error) => bail!("{}: {error}; it is unchanged", writing()),
        };
        let Err(error) = written else {
            return Ok(());
        };
        if write(&old).is_ok() {
            bail!("{}: {error}; it is unchanged", writing());
        }
        bail!(
            "{}: {error}; its areas are damaged -- customize it again with --reset",
            writing()
        );
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_an_area_are_one_patch() {
        let mut image = HostImage::default();
        for piece in [
            Piece::Base(0..10),
            Piece::Own(b"ab".as_slice().into()),
            Piece::Zeros(2),
            Piece::Base(14..20),
            Piece::Own(b"c".as_slice().into()),
        ] {
            image.push(piece);
        }
        let patch = |offset, bytes: &[u8]| Patch {
            offset,
            bytes: bytes.to_vec(),
        };
        assert_eq!(patches(&image), [patch(10, b"ab\0\0"), patch(20, b"c")]);
    }

    #[test]
    fn a_copy_of_a_private_base_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let base = tempfile::NamedTempFile::new_in(directory.path()).unwrap();
        let output = directory.path().join("copy");
        copy(base.as_file(), &output, false, &[]).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(base.path()), mode(&output)), (0o600, 0o600));
    }

    #[test]
    fn a_failed_write_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("base");
        std::fs::write(&path, "0123456789").unwrap();
        let patch = |offset, text: &str| Patch {
            offset,
            bytes: text.into(),
        };
        let file = File::options().read(true).write(true).open(&path).unwrap();
        in_place(&file, &path, &[patch(1, "ab"), patch(8, "c")]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"0ab34567c9");
        // Opened for reading only, so every write fails.
        let file = File::open(&path).unwrap();
        let error = in_place(&file, &path, &[patch(0, "x")]).unwrap_err();
        let text = error.to_string();
        assert!(text.ends_with("(os error 9); it is unchanged"), "{text}");
        assert_eq!(std::fs::read(&path).unwrap(), b"0ab34567c9");
    }
}
