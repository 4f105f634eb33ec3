//! Keeps compressed archives for the next build, by the digest of what they hold.
//!
//! The cache changes no byte of a ramdisk. An entry that is damaged is made again, and a
//! directory that cannot be written only costs time.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use crate::compress::Compression;
use crate::digest_writer::hex;
use crate::path_error::read_bounded;
use crate::temporary::TemporaryPath;

/// In bytes: what the cache may hold. The server sets of ten kernels take 200 MB.
const MAX_CACHE_BYTES: u64 = 512 << 20;
/// In bytes: what an entry may have. The largest archive has 8 MiB and one file more.
const MAX_ENTRY_BYTES: u64 = 256 << 20;
const DIGEST_BYTES: usize = 32;
/// The end of the names of its files. It has no others, so that a directory that holds
/// something else loses nothing.
const SUFFIX: &str = ".segment";

#[derive(Debug)]
pub(crate) struct SegmentCache {
    directory: PathBuf,
}

impl SegmentCache {
    /// Makes the directory, which only its owner can read. `None` if that fails, or if
    /// another user owns it and could write into it.
    pub(crate) fn open(directory: &Path) -> Option<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .ok()?;
        let metadata = directory.metadata().ok()?;
        let is_own = metadata.uid() == nix::unistd::geteuid().as_raw();
        (is_own && metadata.mode() & 0o022 == 0).then(|| Self {
            directory: directory.to_owned(),
        })
    }

    /// The archive as `make` compresses it: from the cache, or made and put there.
    pub(crate) fn get_or_make<E>(
        &self,
        compression: Compression,
        archive: &[u8],
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let path = self.directory.join(name(compression, archive));
        if let Some(packed) = read(&path) {
            return Ok(packed);
        }
        let packed = make()?;
        let _ = self.put(&path, &packed);
        Ok(packed)
    }

    fn put(&self, path: &Path, packed: &[u8]) -> std::io::Result<()> {
        let (mut file, temporary) = TemporaryPath::file(&self.directory, ".new-")?;
        file.write_all(&Sha256::digest(packed))?;
        file.write_all(packed)?;
        // Not flushed to the disk: after a power cut the digest tells what is missing.
        fs::rename(temporary.path(), path)
    }

    /// Removes the entries that were not used for the longest time, if there are too
    /// many. An error is ignored: the next build tries again.
    pub(crate) fn forget_the_oldest(&self) {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter(|entry| entry.file_name().to_string_lossy().ends_with(SUFFIX))
            .filter_map(|entry| {
                let metadata = entry.metadata().ok()?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        entries.sort();
        let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, size, path) in entries {
            if bytes <= MAX_CACHE_BYTES {
                break;
            }
            let _ = fs::remove_file(path);
            bytes -= size;
        }
    }
}

/// Everything that the compressed bytes depend on.
fn name(compression: Compression, archive: &[u8]) -> String {
    let zstd = zstd::zstd_safe::version_number();
    let mut digest = Sha256::new();
    digest.update(format!("segment 1, {compression}, zstd {zstd}\n"));
    digest.update(archive);
    hex(&digest.finalize()) + SUFFIX
}

/// The content of an entry, if it is whole. Its time becomes that of this use.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = read_bounded(path, MAX_ENTRY_BYTES).ok()?;
    if bytes.len() < DIGEST_BYTES {
        return None;
    }
    let packed = bytes.split_off(DIGEST_BYTES);
    let digest: &[u8] = &Sha256::digest(&packed);
    if bytes != digest {
        return None;
    }
    if let Ok(file) = fs::File::open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
    Some(packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZSTD: Compression = Compression::Zstd { level: 3 };

    fn made(cache: &SegmentCache, archive: &[u8], packed: &[u8]) -> Vec<u8> {
        let make = || Ok::<_, ()>(packed.to_vec());
        cache.get_or_make(ZSTD, archive, make).unwrap()
    }

    #[test]
    fn what_was_made_once_is_not_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        let cache = SegmentCache::open(&path).unwrap();
        assert_eq!(made(&cache, b"archive", b"first"), b"first");
        assert_eq!(made(&cache, b"archive", b"second"), b"first");
        assert_eq!(made(&cache, b"another", b"third"), b"third");
        let other = Compression::Zstd { level: 4 };
        let make = || Ok::<_, ()>(b"fourth".to_vec());
        assert_eq!(
            cache.get_or_make(other, b"archive", make),
            Ok(b"fourth".to_vec())
        );
        cache.forget_the_oldest();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 3);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_damaged_entry_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let cache = SegmentCache::open(&directory.path().join("cache")).unwrap();
        made(&cache, b"archive", b"first");
        let path = cache.directory.join(name(ZSTD, b"archive"));
        let whole = fs::read(&path).unwrap();
        for length in [0, 10, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(made(&cache, b"archive", b"again"), b"again");
        }
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(SegmentCache::open(directory.path()).is_none());
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(SegmentCache::open(&file).is_none());
    }
}
