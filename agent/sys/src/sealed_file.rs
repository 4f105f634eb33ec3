//! A memory-mapped copy of a file that no process can change or truncate.
//!
//! A mapping of a file on disk is dangerous: if another program truncates the file,
//! reading the mapping ends this program with SIGBUS. The kernel guarantees that a
//! sealed memory file keeps its size and its content (memfd_create(2), fcntl(2) "File
//! Sealing"), so a reference to its bytes is safe.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use memmap2::Mmap;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// The number of bytes that are copied at once.
const PIECE: usize = 1 << 20;

#[derive(Debug)]
pub struct SealedFile {
    file: File,
    /// `None` if the file is empty, because an empty file cannot be mapped.
    map: Option<Mmap>,
}

impl SealedFile {
    /// Copies `source` to its end. Passes each piece to `each`, so that the caller
    /// can compute a digest meanwhile.
    ///
    /// # Errors
    /// If `source` cannot be read, or memory runs out.
    pub fn copy_of(mut source: impl Read, mut each: impl FnMut(&[u8])) -> io::Result<Self> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let mut file = File::from(memfd_create("landfall-image", flags)?);
        let mut buffer = vec![0; PIECE];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => {
                    each(&buffer[..len]);
                    file.write_all(&buffer[..len])?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let seals = SealFlag::F_SEAL_SHRINK
            | SealFlag::F_SEAL_GROW
            | SealFlag::F_SEAL_WRITE
            | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let map = match file.metadata()?.len() {
            0 => None,
            // SAFETY: the seals above keep the size and the content of the file for as
            // long as it exists, so the mapped bytes can neither change nor disappear.
            _ => Some(unsafe { Mmap::map(&file) }?),
        };
        Ok(Self { file, map })
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}

impl AsRef<[u8]> for SealedFile {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// The descriptor of the memory file, for sendfile(2).
impl AsFd for SealedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn it_holds_the_bytes_and_is_read_only() {
        for len in [0, 1, PIECE - 1, PIECE + 1] {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let mut seen = Vec::new();
            let sealed =
                SealedFile::copy_of(&bytes[..], |piece| seen.extend_from_slice(piece)).unwrap();
            assert!(sealed.bytes() == bytes && seen == bytes, "{len}");
            assert!(sealed.file.write_all_at(b"x", 0).is_err(), "{len}");
            assert!(sealed.file.set_len(0).is_err() || len == 0, "{len}");
            assert!(sealed.file.set_len(len as u64 + 1).is_err(), "{len}");
        }
    }
}
