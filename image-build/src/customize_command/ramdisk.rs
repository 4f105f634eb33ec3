//! Appends a host's files to a ramdisk.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use anyhow::{Context as _, Result, ensure};
use landfall_host_media::{BaseRamdisk, HostVersion, Piece};
use landfall_initramfs::output_file::OutputFile;

use super::{Customized, Place, keep_mode};
use crate::{epoch, lock};

pub(super) fn customize(place: &Place<'_>, version: &HostVersion) -> Result<Customized> {
    let kargs = version.kargs();
    ensure!(
        kargs.delete.is_empty() && kargs.append.is_empty(),
        "a ramdisk holds no kernel arguments -- give them to the boot loader (`landfall-image pxe --karg` writes boot.ipxe and grub/grub.cfg)"
    );
    // If the base is a symbolic link, the link stays, and the file behind it is replaced.
    let target = match place.output {
        Some(output) => output.to_owned(),
        None => fs::canonicalize(place.base).context("cannot read its path")?,
    };
    let mut file = match place.output {
        Some(_) => lock::to_read(place.base)?,
        None => lock::to_write(&target)?,
    };
    let size = file.seek(SeekFrom::End(0)).context("cannot get its size")?;
    let base = BaseRamdisk::open(&mut file, 0..size)?;
    let image = base.of_host(&[], version, epoch::from_environment()?)?;
    let path = place.output.unwrap_or(place.base);
    let force = place.force || place.output.is_none();
    let mut output = OutputFile::create(&target, force)?;
    keep_mode(&file, &mut output)?;
    let mut added = 0;
    for piece in image.pieces() {
        let written = write(piece, &file, output.file());
        written.with_context(|| format!("cannot write {}", path.display()))?;
        if !matches!(piece, Piece::Base(_)) {
            added += piece.len();
        }
    }
    output.finish()?;
    Ok(Customized {
        path: path.to_owned(),
        kind: "ramdisk",
        bytes: image.size(),
        changed_bytes: added,
        kernel_args: None,
        files: base
            .files_of(version)
            .into_iter()
            .map(|file| file.path)
            .collect(),
    })
}

fn write(piece: &Piece, mut base: &File, output: &mut File) -> io::Result<()> {
    match piece {
        Piece::Base(range) => {
            base.seek(SeekFrom::Start(range.start))?;
            let len = range.end - range.start;
            match io::copy(&mut base.take(len), output)? {
                copied if copied == len => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Piece::Own(bytes) => output.write_all(bytes),
        Piece::Zeros(len) => io::copy(&mut io::repeat(0).take(*len), output).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use landfall_initramfs::newc;

    use super::*;

    #[test]
    fn a_link_stays_a_link_and_a_private_ramdisk_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("v1"), newc::empty_archive()).unwrap();
        fs::set_permissions(path("v1"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink("v1", path("link")).unwrap();
        let version = HostVersion::default().with_file("a", "1");
        for (base, output) in [("link", None), ("v1", Some(path("copy")))] {
            let place = Place {
                base: &path(base),
                output: output.as_deref(),
                force: false,
            };
            customize(&place, &version).unwrap();
        }
        assert!(path("link").is_symlink());
        let changed = fs::read(path("v1")).unwrap();
        assert!(changed.len() > newc::empty_archive().len());
        for name in ["v1", "copy"] {
            assert_eq!(fs::read(path(name)).unwrap(), changed);
            let metadata = fs::metadata(path(name)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }
}
