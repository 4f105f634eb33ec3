//! Reads numbers of a qcow2 file, and says why the file cannot be used.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

#[derive(Debug, thiserror::Error)]
pub(super) enum Qcow2Error {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error("qcow2: {0}")]
    Format(String),
    #[error(
        "qcow2: it has {0}, which this program cannot keep up to date -- convert it: qemu-img convert -O qcow2 IN OUT"
    )]
    Unsupported(&'static str),
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
