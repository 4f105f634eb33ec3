//! Appends a host's files to a ramdisk.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use anyhow::{Context as _, Result, ensure};
use landfall_host_media::{BaseRamdisk, HostVersion, Segment};
use landfall_initramfs::output_file::OutputFile;

use super::{Customized, Place, lock};
use crate::epoch;

pub(super) fn customize(place: &Place<'_>, version: &HostVersion) -> Result<Customized> {
    let kargs = version.kargs();
    ensure!(
        kargs.delete.is_empty() && kargs.append.is_empty(),
        "a ramdisk holds no kernel arguments -- give them to the boot loader (`landfall-image pxe --karg` writes boot.ipxe and grub/grub.cfg)"
    );
    let mut file = match place.output {
        Some(_) => lock::to_read(place.base)?,
        None => lock::to_write(place.base)?,
    };
    let size = file.seek(SeekFrom::End(0)).context("cannot get its size")?;
    let base = BaseRamdisk::open(&mut file, 0..size)?;
    let image = base.of_host(&[], version, epoch::from_environment()?)?;
    let path = place.output.unwrap_or(place.base);
    let force = place.force || place.output.is_none();
    let mut output = OutputFile::create(path, force)?;
    let mut added = 0;
    for segment in image.segments() {
        let written = write(segment, &file, output.file());
        written.with_context(|| format!("cannot write {}", path.display()))?;
        if !matches!(segment, Segment::Base(_)) {
            added += segment.len();
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

fn write(segment: &Segment, mut base: &File, output: &mut File) -> io::Result<()> {
    match segment {
        Segment::Base(range) => {
            base.seek(SeekFrom::Start(range.start))?;
            let len = range.end - range.start;
            match io::copy(&mut base.take(len), output)? {
                copied if copied == len => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Segment::Own(bytes) => output.write_all(bytes),
        Segment::Fill { byte, len } => {
            io::copy(&mut io::repeat(*byte).take(*len), output).map(drop)
        }
    }
}
