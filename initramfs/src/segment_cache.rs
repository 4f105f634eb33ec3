//! Stores compressed archives for the next build, by the digest of their content.
//!
//! The bytes of a ramdisk do not depend on the cache. If an entry is damaged, or does not
//! unpack to its archive, the builder compresses the archive again. If the directory is
//! not writable, the next build only takes longer.

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

/// The size limit of the cache in bytes. The server sets of ten kernels take 200 MB.
const MAX_CACHE_BYTES: u64 = 512 << 20;
/// The size limit of an entry in bytes. The largest archive has 8 MiB plus one file.
const MAX_ENTRY_BYTES: u64 = 256 << 20;
const DIGEST_BYTES: usize = 32;
/// The end of the names of complete files in the cache, and the start of the names of
/// incomplete files. The cache never removes other files, in case the directory is also
/// used for something else.
const SUFFIX: &str = ".segment";
const NEW: &str = ".new-";
/// An incomplete file that is older than this belongs to a build that was killed.
const WRITTEN_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub(crate) struct SegmentCache {
    directory: PathBuf,
}

impl SegmentCache {
    /// Makes the directory, readable only for its owner, unless it exists. `None` if that
    /// fails, if another user owns the directory, or if other users can write into it.
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

    /// The archive as `make` compresses it: from the cache, or compressed now and stored.
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
        // Do not flush to disk: after a power cut the digest shows whether the entry is
        // complete.
        fs::rename(temporary.path(), path)
    }

    /// Removes incomplete files of killed builds and, if the cache is too large, the
    /// entries that were not used for the longest time. Errors are ignored, because the
    /// next build tries again.
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

/// The name of an entry: a digest of everything that affects the compressed bytes.
fn name(compression: Compression, archive: &[u8]) -> String {
    let zstd = zstd::zstd_safe::version_number();
    let mut digest = Sha256::new();
    digest.update(format!("segment 1, {compression}, zstd {zstd}\n"));
    digest.update(archive);
    hex(&digest.finalize()) + SUFFIX
}

/// The content of an entry, if it is complete and unpacks to this archive. Sets the time
/// of the entry to now, to record its last use.
///
/// The digest detects damage. Unpacking detects an entry that somebody else has written.
/// Compressing would take a hundred times as long as both checks.
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
    fn a_cached_segment_is_not_made_again() {
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
        // The digest is right, so somebody else could have written this entry.
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
    fn leftovers_of_a_killed_build_are_removed() {
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
