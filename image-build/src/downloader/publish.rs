//! Puts kernel and ramdisk where Ironic's web server and conductor look for them.
//!
//! The files are in a folder of their own, and links lead to them, as metal3's
//! downloader does it. A file is never changed in place: Ironic makes hard links to
//! it, so running deployments would get the other content. A folder and a link
//! appear by a rename, so there is no moment without a ramdisk.
//!
//! Ironic fetches a file again if `Last-Modified` is newer than its copy
//! (`ironic/drivers/modules/image_cache.py`). So the files have the time of the
//! copy, not that of the build.
//!
//! The volume may be on NFS: only plain writes, renames and symbolic links are
//! used, no locks. Two containers at once do no harm: each has names of its own until
//! it renames, and neither removes a folder that is so young that the other one may be
//! about to link to it.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use landfall_initramfs::digest_writer::{self, DigestWriter};
use landfall_initramfs::path_error::PathError;

use super::old_folders::{linked_folders, remove_old};
use super::request::Request;
use super::{FOLDER, KERNEL, RAMDISK, UNFINISHED};

/// The file in which metal3's downloader keeps the headers of its server's answer.
const HEADERS: &str = "ironic-python-agent.headers";
/// The maximum number of attempts if another container removes the folder.
const ATTEMPTS: usize = 3;
/// The number of bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum PublishError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("{path}: expected a link or a file, found a directory -- remove it")]
    Directory { path: PathBuf },
}

impl PublishError {
    pub(super) fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Path(error) => Some(&error.source),
            Self::Directory { .. } => None,
        }
    }
}

/// The kernel and the ramdisk in the image.
#[derive(Debug)]
pub(super) struct Ramdisk {
    /// Path and digest of kernel and ramdisk.
    files: [(PathBuf, String); 2],
    /// The size of both files together, in bytes.
    pub(super) size: u64,
    /// The digest of both digests, in hexadecimal.
    sha256: String,
}

impl Ramdisk {
    /// Reads and digests the files.
    pub(super) fn read(directory: &Path) -> Result<Self, PathError> {
        let read = |name: &str| -> Result<(PathBuf, u64, String), PathError> {
            let path = directory.join(name);
            let (size, sha256) = digest(&path)?;
            Ok((path, size, sha256))
        };
        let (kernel, kernel_size, kernel_sha256) = read(KERNEL)?;
        let (ramdisk, ramdisk_size, ramdisk_sha256) = read(RAMDISK)?;
        Ok(Self {
            sha256: digest_writer::sha256(format!("{kernel_sha256}{ramdisk_sha256}").as_bytes()),
            files: [(kernel, kernel_sha256), (ramdisk, ramdisk_sha256)],
            size: kernel_size + ramdisk_size,
        })
    }

    fn folder(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        format!("{FOLDER}{version}-{}", &self.sha256[..16])
    }

    /// The headers of an answer, for metal3's downloader if a site goes back to it. That
    /// downloader sends this ETag, which its server does not know, so the server sends
    /// the whole file. Without this file, the headers of an earlier download would
    /// remain, and the downloader fails on the answer 304.
    fn headers(&self) -> String {
        format!(
            "HTTP/1.1 200 OK\r\nETag: \"sha256-{}\"\r\n\r\n",
            self.sha256
        )
    }
}

/// Publishes the ramdisk and reports what it did. If everything is there already,
/// it writes nothing, so that a full or read-only volume is no fault.
pub(super) fn publish(
    ramdisk: &Ramdisk,
    request: &Request,
    say: &dyn Fn(&str),
) -> Result<(), PublishError> {
    let images = request.shared.join("html/images");
    let folder = ramdisk.folder();
    let before = linked_folders(&images);
    let mut changed = false;
    let place = images.join(&folder);
    let mut is_there = is_whole(ramdisk, &place);
    for _ in 0..ATTEMPTS {
        if !is_there || (!before.contains(&folder) && touch(&place).is_err()) {
            make_directories(&images)?;
            place_folder(ramdisk, &images, &folder)?;
            changed = true;
        }
        let switched = switch_links(&images, &folder, &request.suffix)?;
        changed |= switched;
        // An older version in another container may have removed the folder, because no
        // link led to it yet.
        is_there = !switched || is_whole(ramdisk, &place);
        if is_there {
            break;
        }
    }
    if changed {
        sync(&images)?;
        let mut kept = before;
        kept.extend(linked_folders(&images));
        kept.insert(folder.clone());
        for problem in remove_old(&images, &kept) {
            say(&format!("warning: {problem}"));
        }
    }
    let done = if changed { "now" } else { "still" };
    say(&format!(
        "{}: ironic-python-agent{}.kernel and .initramfs are {done} those of {folder}",
        images.display(),
        request.suffix
    ));
    Ok(())
}

/// Makes the links to a folder, and returns whether any of them had to be made.
fn switch_links(images: &Path, folder: &str, suffix: &str) -> Result<bool, PublishError> {
    let mut switched = false;
    // Make the link to the headers first: if the container is killed after any of these
    // links, metal3's downloader still works. The link to the kernel comes before that
    // to the ramdisk, as in metal3's downloader.
    for name in [HEADERS, KERNEL, RAMDISK] {
        let link = match name.rsplit_once('.') {
            Some((stem, ending)) => format!("{stem}{suffix}.{ending}"),
            None => name.to_owned(),
        };
        switched |= switch_link(images, &link, &format!("{folder}/{name}"))?;
    }
    Ok(switched)
}

fn make_directories(images: &Path) -> Result<(), PathError> {
    fs::create_dir_all(images).map_err(PathError::new("cannot make", images))
}

/// Whether the folder has these files with this content.
fn is_whole(ramdisk: &Ramdisk, folder: &Path) -> bool {
    let names = [KERNEL, RAMDISK].into_iter();
    let same_files = names.zip(&ramdisk.files).all(|(name, (_, sha256))| {
        let path = folder.join(name);
        let is_file = path.symlink_metadata().is_ok_and(|data| data.is_file());
        is_file && digest(&path).is_ok_and(|(_, found)| found == *sha256)
    });
    let headers = ramdisk.headers();
    let mut found = Vec::new();
    let file = File::open(folder.join(HEADERS));
    let read = file.and_then(|file| {
        let limit = headers.len() as u64 + 1;
        file.take(limit).read_to_end(&mut found)
    });
    same_files && read.is_ok() && found == headers.as_bytes()
}

/// Gives the files of an earlier start the current time, so that Ironic fetches them
/// again: its cache holds the files of another version. The folder also gets the current
/// time, so that no other container removes it.
fn touch(folder: &Path) -> io::Result<()> {
    File::open(folder)?.set_modified(SystemTime::now())?;
    for name in [KERNEL, RAMDISK] {
        File::open(folder.join(name))?.set_modified(SystemTime::now())?;
    }
    Ok(())
}

/// Copies the files into a new folder and moves it to its name.
fn place_folder(ramdisk: &Ramdisk, images: &Path, name: &str) -> Result<(), PathError> {
    let making = || PathError::new("cannot make a folder in", images);
    let temporary = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempdir_in(images)
        .map_err(making())?;
    let path = temporary.path();
    for (name, (source, _)) in [KERNEL, RAMDISK].into_iter().zip(&ramdisk.files) {
        let mut input = File::open(source).map_err(PathError::new("cannot open", source))?;
        write(&path.join(name), &mut input, source)?;
    }
    let headers = path.join(HEADERS);
    write(&headers, &mut ramdisk.headers().as_bytes(), &headers)?;
    set_mode(path, 0o755)?;
    sync(path)?;
    let place = images.join(name);
    // A damaged folder cannot be replaced by a rename, because it is not empty. So move
    // it aside first.
    let aside = path.with_extension("damaged");
    let moved = place.symlink_metadata().is_ok() && fs::rename(&place, &aside).is_ok();
    fs::rename(path, &place).map_err(PathError::new("cannot make", &place))?;
    // The temporary name no longer exists.
    let _ = temporary.keep();
    if moved {
        let _ = fs::remove_dir_all(&aside).or_else(|_| fs::remove_file(&aside));
    }
    Ok(())
}

/// Writes a file and forces it to the disk: a full NFS or quota may show only then.
/// `source` is the path that an error of `input` names.
fn write(path: &Path, input: &mut dyn Read, source: &Path) -> Result<(), PathError> {
    let writing = || PathError::new("cannot write", path);
    let mut file = File::create_new(path).map_err(writing())?;
    let mut buffer = vec![0; COPY_BYTES];
    // Not `io::copy`: it uses copy_file_range, which some network file systems
    // refuse.
    loop {
        let read = input.read(&mut buffer);
        let read = read.map_err(PathError::new("cannot read", source))?;
        if read == 0 {
            break;
        }
        file.write_all(&buffer[..read]).map_err(writing())?;
    }
    set_mode(path, 0o644)?;
    file.sync_all().map_err(writing())
}

/// Sets the mode, whatever the umask. It is not an error if the volume refuses this and
/// the existing mode is sufficient.
fn set_mode(path: &Path, mode: u32) -> Result<(), PathError> {
    let result = fs::set_permissions(path, Permissions::from_mode(mode));
    let is_enough = path
        .metadata()
        .is_ok_and(|data| data.permissions().mode() & mode == mode);
    match result {
        Err(error) if !is_enough => {
            Err(PathError::new("cannot set the permissions of", path)(error))
        }
        _ => Ok(()),
    }
}

/// Forces a directory to the disk.
fn sync(directory: &Path) -> Result<(), PathError> {
    let file = File::open(directory).map_err(PathError::new("cannot open", directory))?;
    match file.sync_all() {
        // Some network file systems do not support this for directories.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result.map_err(PathError::new("cannot write", directory)),
    }
}

/// Makes the link, or replaces a link or file of that name. Returns whether it changed
/// anything.
fn switch_link(images: &Path, name: &str, target: &str) -> Result<bool, PublishError> {
    let path = images.join(name);
    if fs::read_link(&path).is_ok_and(|found| found == Path::new(target)) {
        return Ok(false);
    }
    if path.symlink_metadata().is_ok_and(|data| data.is_dir()) {
        return Err(PublishError::Directory { path });
    }
    let making = || PathError::new("cannot make", &path);
    let temporary = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .make_in(images, |path| symlink(target, path))
        .map_err(making())?;
    let persisted = temporary.into_temp_path().persist(&path);
    persisted.map_err(|error| making()(error.error))?;
    Ok(true)
}

/// Size and digest of a file.
fn digest(path: &Path) -> Result<(u64, String), PathError> {
    let mut file = File::open(path).map_err(PathError::new("cannot open", path))?;
    let mut digest = DigestWriter::new(io::sink());
    io::copy(&mut file, &mut digest).map_err(PathError::new("cannot read", path))?;
    Ok(digest.finish())
}
