//! Reads numbers of a qcow2 file, and says why the file cannot be used.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use landfall_disk::image::qcow2::header::HeaderError;
use landfall_disk::image::qcow2::tables::EntryError;
use landfall_disk::image::qcow2::unpack::UnpackError;

#[derive(Debug, thiserror::Error)]
pub(super) enum Qcow2Error {
    #[error(transparent)]
    File(#[from] io::Error),
    /// The header of the qcow2 file names a feature or a value that landfall-image cannot
    /// use. The original image is unchanged.
    #[error("qcow2: {0}")]
    Header(HeaderError),
    /// A table of the qcow2 file is damaged. The original image is unchanged; check it
    /// with `qemu-img check`.
    #[error("qcow2: {0}")]
    Entry(EntryError),
    /// A part of the image is damaged. The original image is unchanged; check it with
    /// `qemu-img check`.
    #[error("qcow2: a compressed cluster: {0}")]
    Cluster(UnpackError),
    /// QEMU found the image corrupt, or a program did not close it. The original image is
    /// unchanged; repair it with `qemu-img check -r`.
    #[error("qcow2: the image {0}")]
    Suspicious(&'static str),
    #[error(
        "qcow2: it has {0}, which this program cannot keep up to date -- convert it: qemu-img convert -O qcow2 IN OUT"
    )]
    Unsupported(&'static str),
    /// The tables of the qcow2 file contradict each other, so a change could destroy
    /// data. The original image is unchanged.
    #[error("qcow2: {0} -- check it with qemu-img check")]
    Damaged(&'static str),
    #[error("byte {offset} is beyond the end of the disk ({size} bytes)")]
    BeyondDisk { offset: u64, size: u64 },
}

pub(super) type Result<T> = std::result::Result<T, Qcow2Error>;

pub(super) fn read_u64(file: &File, place: u64) -> Result<u64> {
    let mut value = [0; 8];
    file.read_exact_at(&mut value, place)?;
    Ok(u64::from_be_bytes(value))
}
