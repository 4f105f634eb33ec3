//! Keeps compressed archives for the next build, by the digest of what they hold.
//!
//! The cache changes no byte of a ramdisk. An entry that is damaged, or does not unpack to
//! its archive, is made again, and a directory that cannot be written only costs time.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

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
/// The end of the names of its files, and the start of those that are not complete. Others
/// are left alone, so that a directory that holds something else loses nothing.
const SUFFIX: &str = ".segment";
const NEW: &str = ".new-";
/// A file that is not complete by then is of a build that was killed.
const WRITTEN_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

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

    /// Whether the user can write into the directory.
    pub(crate) fn is_writable(&self) -> bool {
        TemporaryPath::file(&self.directory, NEW).is_ok()
    }

    /// The archive as `make` compresses it: from the cache, or made and put there.
    pub(crate) fn get_or_make<E>(
        &self,
        compression: Compression,
        archive: &[u8],
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let path = self.directory.join(name(compression, archive));
        if let Some(packed) = read(&path, archive) {
            return Ok(packed);
        }
        let packed = make()?;
        let _ = self.put(&path, &packed);
        Ok(packed)
    }

    fn put(&self, path: &Path, packed: &[u8]) -> std::io::Result<()> {
        let (mut file, temporary) = TemporaryPath::file(&self.directory, NEW)?;
        file.write_all(&Sha256::digest(packed))?;
        file.write_all(packed)?;
        // Not flushed to the disk: after a power cut the digest tells what is missing.
        fs::rename(temporary.path(), path)
    }

    /// Removes the entries that were not used for the longest time, if there are too
    /// many, and what killed builds have left. An error is ignored: the next build tries
    /// again.
    pub(crate) fn forget_the_oldest(&self) {
        let found = fs::read_dir(&self.directory);
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in found.into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let Ok(modified) = metadata.modified() else {
                continue;
            };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_old = || modified.elapsed().is_ok_and(|age| age > WRITTEN_WITHIN);
            if name.ends_with(SUFFIX) {
                entries.push((modified, metadata.len(), entry.path()));
            } else if name.starts_with(NEW) && is_old() {
                let _ = fs::remove_file(entry.path());
            }
        }
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

/// The content of an entry, if it is whole and unpacks to this archive. Its time becomes
/// that of this use.
///
/// The digest finds damage, and unpacking what somebody else has put there. Compressing
/// takes a hundred times as long.
fn read(path: &Path, archive: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = read_bounded(path, MAX_ENTRY_BYTES).ok()?;
    if bytes.len() < DIGEST_BYTES {
        return None;
    }
    let packed = bytes.split_off(DIGEST_BYTES);
    let digest: &[u8] = &Sha256::digest(&packed);
    if bytes != digest {
        return None;
    }
    let unpacked = zstd::bulk::decompress(&packed, archive.len()).ok()?;
    if unpacked != archive {
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
    use crate::compress::pack;

    const ZSTD: Compression = Compression::Zstd { level: 3 };

    /// Whether the archive had to be compressed.
    fn is_made(cache: &SegmentCache, compression: Compression, archive: &[u8]) -> bool {
        let mut is_made = false;
        let make = || {
            is_made = true;
            pack(compression, archive)
        };
        let packed = cache.get_or_make(compression, archive, make).unwrap();
        assert_eq!(packed, pack(compression, archive).unwrap());
        is_made
    }

    #[test]
    fn what_was_made_once_is_not_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        let cache = SegmentCache::open(&path).unwrap();
        let other = Compression::Zstd { level: 4 };
        for (compression, archive, expected) in [
            (ZSTD, b"archive", true),
            (ZSTD, b"archive", false),
            (ZSTD, b"another", true),
            (other, b"archive", true),
            (ZSTD, b"archive", false),
        ] {
            assert_eq!(is_made(&cache, compression, archive), expected);
        }
        cache.forget_the_oldest();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 3);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn an_entry_that_is_not_that_of_the_archive_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let cache = SegmentCache::open(&directory.path().join("cache")).unwrap();
        let archive = b"archive".repeat(100);
        assert!(is_made(&cache, ZSTD, &archive));
        let path = cache.directory.join(name(ZSTD, &archive));
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 1;
        // With the right digest: somebody else has put it there.
        let foreign = |archive: &[u8]| {
            let packed = pack(ZSTD, archive).unwrap();
            [&Sha256::digest(&packed)[..], &packed].concat()
        };
        for bytes in [
            Vec::new(),
            whole[..10].to_vec(),
            whole[..whole.len() - 1].to_vec(),
            damaged,
            [&whole[..], b"more"].concat(),
            foreign(b"another"),
            foreign(&b"another".repeat(1000)),
        ] {
            fs::write(&path, bytes).unwrap();
            assert!(is_made(&cache, ZSTD, &archive));
            assert!(!is_made(&cache, ZSTD, &archive));
        }
    }

    #[test]
    fn what_a_killed_build_has_left_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache");
        let cache = SegmentCache::open(&path).unwrap();
        assert!(is_made(&cache, ZSTD, b"archive"));
        for (name, hours) in [(".new-old", 25), (".new-young", 1), ("not-ours", 25)] {
            let file = fs::File::create(path.join(name)).unwrap();
            let then = SystemTime::now() - Duration::from_secs(hours * 60 * 60);
            file.set_modified(then).unwrap();
        }
        cache.forget_the_oldest();
        let is_there = |name: &str| path.join(name).exists();
        assert_eq!(
            [".new-old", ".new-young", "not-ours"].map(is_there),
            [false, true, true]
        );
        assert!(!is_made(&cache, ZSTD, b"archive"));
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
        let own = SegmentCache::open(&directory.path().join("own")).unwrap();
        assert!(own.is_writable());
        assert_eq!(fs::read_dir(&own.directory).unwrap().count(), 0);
    }
}
