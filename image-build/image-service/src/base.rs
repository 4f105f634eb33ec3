//! Holds the base files in memory, and what is computed from them.

use std::fs::{File, TryLockError};
use std::io::{self, Cursor};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use landfall_host_media::kernel_args::KernelArgsError;
use landfall_host_media::{
    BaseError, BaseIso, BaseRamdisk, HostError, HostImage, HostVersion, IpxeScript,
};
use landfall_initramfs::arch::Arch;
use landfall_initramfs::kernel_image::KernelImage;
use landfall_sys::sealed_file::SealedFile;
use sha2::{Digest as _, Sha256};

use crate::file_stamp::FileStamp;
use crate::request_path;

/// The time stamp of everything in the hosts' archives. It does not depend on when
/// or where the service runs, so all copies make the same bytes.
const EPOCH: u32 = 0;

/// Change this number whenever the service makes different bytes from the same input.
/// The number is a part of the ids of images, and a client resumes a download if the id
/// is the same.
const VERSION: &str = "landfall-image-service 3";

/// The files that the service is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseFiles {
    pub iso: PathBuf,
    /// A ramdisk for network boot; by default the ISO's.
    pub ramdisk: Option<PathBuf>,
    /// The kernel for the ramdisk; by default the ISO's.
    pub kernel: Option<PathBuf>,
}

/// Why the base files cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", path.display())]
pub struct LoadError {
    pub path: PathBuf,
    #[source]
    pub source: LoadFault,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadFault {
    #[error(transparent)]
    Base(#[from] BaseError),
    #[error("another landfall-image is changing it -- try again when it has ended")]
    InUse,
    #[error(
        "it was changed while the service read it -- write it under another name and rename it, then try again"
    )]
    Changed,
}

impl From<io::Error> for LoadFault {
    fn from(error: io::Error) -> Self {
        Self::Base(error.into())
    }
}

/// A file in memory that nobody can change.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pub(crate) file: Arc<SealedFile>,
    /// All bytes of the file. A slice of it keeps the file alive.
    pub(crate) bytes: Bytes,
    sha256: [u8; 32],
}

/// `Bytes::from_owner` requires an owner that returns the bytes itself.
struct Owner(Arc<SealedFile>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Memory {
    fn read(path: &Path) -> Result<Self, LoadError> {
        Self::copy(path, |_| {}).map_err(|source| LoadError {
            path: path.to_owned(),
            source,
        })
    }

    /// Copies a file. Fails if the file changes meanwhile. `each` receives each
    /// chunk.
    fn copy(path: &Path, mut each: impl FnMut(&[u8])) -> Result<Self, LoadFault> {
        let mut digest = Sha256::new();
        let source = File::open(path)?;
        // `landfall-image customize --in-place` holds the exclusive lock. If the file
        // system does not support locks, continue without one, because the stamps still
        // show a change.
        if let Err(TryLockError::WouldBlock) = source.try_lock_shared() {
            return Err(LoadFault::InUse);
        }
        let before = FileStamp::of(&source.metadata()?);
        let file = SealedFile::copy_of(&source, |chunk| {
            digest.update(chunk);
            each(chunk);
        })?;
        // Other programs take no lock, so compare the stamps. The path is checked
        // too: a new file at this path would otherwise be served only after the next
        // reload.
        let after = [source.metadata()?, path.metadata()?];
        if after.iter().any(|found| FileStamp::of(found) != before) {
            return Err(LoadFault::Changed);
        }
        let file = Arc::new(file);
        Ok(Self {
            bytes: Bytes::from_owner(Owner(Arc::clone(&file))),
            file,
            sha256: digest.finalize().into(),
        })
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// A base ISO, a base ramdisk and their kernel.
#[derive(Debug)]
pub struct Base {
    pub(crate) iso_file: Memory,
    iso: BaseIso,
    pub(crate) ramdisk_file: Memory,
    ramdisk: BaseRamdisk,
    pub(crate) kernel_file: Memory,
    pub(crate) kernel: Range<u64>,
    digest: [u8; 32],
    kernel_digest: [u8; 32],
    arch: Arch,
}

impl Base {
    /// Copies the files into memory and checks them. This takes about a second for
    /// each gigabyte.
    ///
    /// # Errors
    /// If a file cannot be read or is no base, if another landfall-image changes it, or
    /// if it changes during the copy.
    pub fn load(files: &BaseFiles) -> Result<Self, LoadError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source: BaseError| LoadError {
                path,
                source: source.into(),
            }
        };
        let iso_file = Memory::read(&files.iso)?;
        let iso = BaseIso::open(Cursor::new(&iso_file.bytes)).map_err(at(&files.iso))?;
        let (ramdisk_file, place, path) = match &files.ramdisk {
            Some(path) => {
                let file = Memory::read(path)?;
                let all = 0..file.size();
                (file, all, path)
            }
            None => (iso_file.clone(), iso.ramdisk(), &files.iso),
        };
        let mut image = Cursor::new(&ramdisk_file.bytes);
        let ramdisk = BaseRamdisk::open(&mut image, place).map_err(at(path))?;
        let (kernel_file, kernel) = match &files.kernel {
            Some(path) => {
                let file = Memory::read(path)?;
                let all = 0..file.size();
                (file, all)
            }
            None => (iso_file.clone(), iso.kernel()),
        };
        // The casts are lossless: the range is within bytes in memory.
        let bytes = &kernel_file.bytes[kernel.start as usize..kernel.end as usize];
        let kernel_digest: [u8; 32] = Sha256::digest(bytes).into();
        // The builder has checked the kernel. If the kernel cannot be parsed here, the
        // service assumes the default architecture and still serves the kernel.
        let arch = KernelImage::parse(bytes).map_or_else(|_| Arch::default(), |kernel| kernel.arch);
        let mut digest = Sha256::new();
        digest.update(VERSION);
        for part in [&iso_file.sha256, &ramdisk_file.sha256, &kernel_digest] {
            digest.update(part);
        }
        Ok(Self {
            iso_file,
            iso,
            ramdisk_file,
            ramdisk,
            kernel_file,
            kernel,
            digest: digest.finalize().into(),
            kernel_digest,
            arch,
        })
    }

    /// The architecture of the hosts that can boot the base.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The memory that the base files use, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        let mut files = vec![&self.iso_file];
        for file in [&self.ramdisk_file, &self.kernel_file] {
            if !files
                .iter()
                .any(|known| Arc::ptr_eq(&known.file, &file.file))
            {
                files.push(file);
            }
        }
        files.into_iter().map(Memory::size).sum()
    }

    pub(crate) fn iso_of(&self, host: &HostVersion) -> Result<HostImage, HostError> {
        self.iso.of_host(host, EPOCH)
    }

    pub(crate) fn ramdisk_of(&self, host: &HostVersion) -> Result<HostImage, HostError> {
        // A network boot also needs the files that a site has put into the area of the
        // ISO.
        let of_iso = self.iso.files(&HostVersion::default());
        self.ramdisk.of_host(&of_iso, host, EPOCH)
    }

    /// The iPXE script of a host. It names kernel and ramdisk with their ids: iPXE
    /// loads them with two requests, the base may change between these requests, and a
    /// kernel cannot load another kernel's modules.
    ///
    /// After a failure iPXE fetches the newest script, because the service may no
    /// longer have the versions that this script names.
    pub(crate) fn script_of(
        &self,
        name: &str,
        id: &str,
        host: &HostVersion,
    ) -> Result<String, HostError> {
        let script = IpxeScript {
            place: "",
            kernel: &self.kernel_path(),
            ramdisks: &[("initrd.img", &format!("/{id}/{name}.initramfs"))],
            arguments: &self.iso.kernel_args(host)?.for_scripts()?,
            failure: &format!("cannot boot {name}"),
            newest: Some(&format!("/{name}.ipxe")),
        };
        Ok(script.to_string())
    }

    /// Why hosts with this content have no iPXE script, although they have an ISO:
    /// GRUB passes on kernel arguments that a script cannot hold.
    #[must_use]
    pub fn script_fault(&self, host: &HostVersion) -> Option<KernelArgsError> {
        self.iso.kernel_args(host).ok()?.for_scripts().err()
    }

    /// Identifies the content of a host: the base, and what the host has in addition.
    pub(crate) fn id_of(&self, host: &HostVersion) -> String {
        let mut digest = Sha256::new();
        digest.update(self.digest);
        digest.update(host.digest());
        base32(&digest.finalize()[..16])
    }

    /// Whether both have the same content.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    pub(crate) fn kernel_id(&self) -> String {
        base32(&self.kernel_digest[..16])
    }

    /// The path of this kernel. It never leads to another kernel.
    pub(crate) fn kernel_path(&self) -> String {
        format!("/{}/{}", self.kernel_id(), request_path::KERNEL)
    }
}

/// Lower-case base32 without padding (RFC 4648, section 6): it is short, and valid in
/// every part of a URL and in names that ignore case.
fn base32(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    (0..(bytes.len() * 8).div_ceil(5))
        .map(|digit| {
            let value = (0..5).fold(0, |value, at| value << 1 | bit(digit * 5 + at));
            char::from(DIGITS[usize::from(value)])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use landfall_host_media::fixtures::RAMDISKS;

    use super::*;

    /// If this fails because of other digests, change [`VERSION`] as well.
    #[test]
    fn other_bytes_need_another_version() {
        let host =
            HostVersion::default().with_file("etc/landfall/site.conf", "[DEFAULT]\ndebug = true\n");
        let digests = RAMDISKS.map(|(packing, bytes)| {
            let all = 0..bytes.len() as u64;
            let base = BaseRamdisk::open(&mut Cursor::new(bytes), all).unwrap();
            let image = base.of_host(&[], &host, EPOCH).unwrap();
            let image = image.to_vec(bytes).unwrap();
            format!("{packing} {}", base32(&Sha256::digest(&image)[..10]))
        });
        let expected = [
            "cpio 75rkzhptx4gnmh24",
            "zstd bx2kz55vtqqep424",
            "gzip ef4yzo7whjxxza2n",
            "xz xiy77qegxxe65gm6",
            "lz4 qm4ef2llziseqvg7",
        ];
        assert_eq!(VERSION, "landfall-image-service 3");
        assert_eq!(digests, expected);
    }

    #[test]
    fn a_file_that_is_being_changed_is_refused() {
        use std::io::Write as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("base");
        std::fs::write(&path, vec![b'x'; 3 << 20]).unwrap();
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        let open = || File::options().write(true).open(&path).unwrap();
        open().set_modified(long_ago).unwrap();
        assert_eq!(Memory::read(&path).unwrap().size(), 3 << 20);

        // As rsync --inplace does, which also sets the old time again.
        let mut is_first = true;
        let torn = Memory::copy(&path, |_| {
            if std::mem::take(&mut is_first) {
                let mut file = open();
                file.write_all(&[b'y'; 100]).unwrap();
                file.set_modified(long_ago).unwrap();
            }
        });
        assert!(matches!(torn, Err(LoadFault::Changed)), "{torn:?}");
        let replaced = Memory::copy(&path, |_| {
            std::fs::write(directory.path().join("new"), "new").unwrap();
            std::fs::rename(directory.path().join("new"), &path).unwrap();
        });
        assert!(matches!(replaced, Err(LoadFault::Changed)), "{replaced:?}");

        let writer = open();
        writer.lock().unwrap();
        let error = Memory::read(&path).unwrap_err();
        assert!(matches!(error.source, LoadFault::InUse), "{error:?}");
        drop(writer);
        assert_eq!(Memory::read(&path).unwrap().size(), 3);
    }

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn base32_as_the_rfc_writes_it() {
        for (bytes, expected) in [
            ("", ""),
            ("f", "my"),
            ("fo", "mzxq"),
            ("foo", "mzxw6"),
            ("foob", "mzxw6yq"),
            ("fooba", "mzxw6ytb"),
            ("foobar", "mzxw6ytboi"),
        ] {
            assert_eq!(base32(bytes.as_bytes()), expected);
        }
        assert_eq!(base32(&[0; 16]).len(), crate::request_path::ID_LEN);
    }
}
