//! Makes the image that the bench writes: 2 GiB with a GPT, one third filled
//! from files of this machine's /usr, the rest holes. It exists in every form
//! that an image server may offer. The bench makes it once and keeps it in
//! `out/bench`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use landfall_tests::artifacts;
use sha2::{Digest, Sha256};

/// The size of the disk inside every form.
pub(super) const VIRTUAL_SIZE: u64 = 2 << 30;
/// In bytes: the unit in which a program can skip zeros, for the ratio `bytes
/// written / bytes in non-zero granules`.
const GRANULE: usize = 64 << 10;
/// In bytes: the first and the last MiB are for the partition tables.
const TABLE: u64 = 1 << 20;
/// Folders whose files fill the image. The files are read in the order of their
/// names, so that the same machine makes the same image.
const FILES: [&str; 3] = ["/usr/bin", "/usr/lib", "/usr/share"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Raw,
    Gz,
    Zst,
    /// One block, as `xz -T1` makes it.
    Xz,
    /// Blocks of 16 MiB.
    XzBlocks,
    Qcow2,
    Qcow2Zlib,
    Qcow2Zstd,
}

impl Form {
    pub(super) const ALL: [Self; 8] = [
        Self::Raw,
        Self::Gz,
        Self::Zst,
        Self::Xz,
        Self::XzBlocks,
        Self::Qcow2,
        Self::Qcow2Zlib,
        Self::Qcow2Zstd,
    ];

    /// The name of the file in the folder and on the server.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Raw => "image.raw",
            Self::Gz => "image.raw.gz",
            Self::Zst => "image.raw.zst",
            Self::Xz => "image.raw.xz",
            Self::XzBlocks => "image.blocks.raw.xz",
            Self::Qcow2 => "image.qcow2",
            Self::Qcow2Zlib => "image.zlib.qcow2",
            Self::Qcow2Zstd => "image.zstd.qcow2",
        }
    }

    /// The name in the tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Gz => "raw.gz",
            Self::Zst => "raw.zst",
            Self::Xz => "raw.xz",
            Self::XzBlocks => "raw.xz, in blocks",
            Self::Qcow2 => "qcow2",
            Self::Qcow2Zlib => "qcow2, zlib",
            Self::Qcow2Zstd => "qcow2, zstd",
        }
    }

    pub(super) fn is_qcow2(self) -> bool {
        matches!(self, Self::Qcow2 | Self::Qcow2Zlib | Self::Qcow2Zstd)
    }

    /// The command that makes this form from `raw`. It writes to standard output,
    /// or for qcow2 to `part`.
    fn command(self, raw: &Path, part: &Path) -> Option<Command> {
        let (program, arguments): (_, &[&str]) = match self {
            Self::Raw => return None,
            Self::Gz => ("gzip", &["-6", "-n", "-c"]),
            Self::Zst => ("zstd", &["-9", "-q", "-c"]),
            Self::Xz => ("xz", &["-0", "-T1", "-c"]),
            Self::XzBlocks => ("xz", &["-0", "-T2", "--block-size=16MiB", "-c"]),
            Self::Qcow2 => ("qemu-img", &[]),
            Self::Qcow2Zlib => ("qemu-img", &["-c", "-o", "compression_type=zlib"]),
            Self::Qcow2Zstd => ("qemu-img", &["-c", "-o", "compression_type=zstd"]),
        };
        let mut command = Command::new(program);
        if self.is_qcow2() {
            command.args(["convert", "-f", "raw", "-O", "qcow2"]);
            command.args(arguments).args([raw, part]);
        } else {
            command.args(arguments).arg(raw);
        }
        Some(command)
    }
}

/// The image in all forms.
#[derive(Debug)]
pub(super) struct Images {
    folder: PathBuf,
    sha256: Vec<(Form, String)>,
    /// Bytes of the disk in 64 KiB granules that are not all zero.
    pub(super) data_bytes: u64,
}

impl Images {
    /// Makes the missing forms, which takes some minutes. Returns their folder.
    pub(super) fn make_missing() -> Result<PathBuf> {
        let folder = artifacts::out_dir().join("bench");
        fs::create_dir_all(&folder)?;
        let raw = folder.join(Form::Raw.file_name());
        if !raw.exists() {
            let part = part(&raw);
            make_raw(&part)?;
            fs::rename(part, &raw)?;
        }
        pack_missing(&folder, &raw)?;
        Ok(folder)
    }

    /// Makes the missing forms and describes all forms.
    pub(super) fn ready() -> Result<Self> {
        let folder = Self::make_missing()?;
        let sha256 = Form::ALL
            .iter()
            .map(|&form| Ok((form, sha256_of(&folder.join(form.file_name()))?)))
            .collect::<Result<_>>()?;
        let data_bytes = data_bytes(&folder.join(Form::Raw.file_name()))?;
        Ok(Self {
            folder,
            sha256,
            data_bytes,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn path(&self, form: Form) -> PathBuf {
        self.folder.join(form.file_name())
    }

    pub(super) fn sha256(&self, form: Form) -> &str {
        let found = self.sha256.iter().find(|known| known.0 == form);
        found.map_or("", |known| &known.1)
    }
}

fn part(path: &Path) -> PathBuf {
    path.with_added_extension("part")
}

fn pack_missing(folder: &Path, raw: &Path) -> Result<()> {
    let mut running = Vec::new();
    for form in Form::ALL {
        let path = folder.join(form.file_name());
        let part = part(&path);
        let Some(mut command) = form.command(raw, &part).filter(|_| !path.exists()) else {
            continue;
        };
        eprintln!("bench: making {}", form.file_name());
        if !form.is_qcow2() {
            command.stdout(File::create(&part)?);
        }
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("starting what makes {}", form.file_name()))?;
        running.push((child, part, path));
    }
    for (mut child, part, path) in running {
        let status = child.wait()?;
        ensure!(status.success(), "making {}: {status}", path.display());
        fs::rename(part, path)?;
    }
    Ok(())
}

/// Fills the image with files, one after the other. Each file starts at a page
/// boundary, as in a file system. The data is in extents with holes between them.
fn make_raw(path: &Path) -> Result<()> {
    eprintln!("bench: making {}", path.display());
    let image = File::create(path)?;
    image.set_len(VIRTUAL_SIZE)?;
    let mut files = Files::of_this_machine()?;
    let mut lengths = Lengths(1);
    let mut at = 2 * TABLE;
    loop {
        let extent = lengths.next();
        let hole = 2 * lengths.next();
        if at + extent > VIRTUAL_SIZE - TABLE {
            break;
        }
        let mut bytes = vec![0; usize::try_from(extent)?];
        files.fill(&mut bytes)?;
        image.write_all_at(&bytes, at)?;
        at += extent + hole;
    }
    drop(image);
    let output = Command::new("sgdisk")
        .args(["--disk-guid=11111111-0000-4000-a000-000000000001"])
        .args([
            "--new=1:2048:0",
            "--typecode=1:8300",
            "--change-name=1:root",
        ])
        .args(["--partition-guid=1:11111111-0000-4000-a000-000000000002"])
        .arg(path)
        .output()
        .context("starting sgdisk")?;
    ensure!(output.status.success(), "sgdisk: {output:?}");
    Ok(())
}

/// A fixed sequence of pseudo-random lengths in bytes: multiples of 4 KiB from 64 KiB to
/// 4 MiB.
struct Lengths(u64);

impl Lengths {
    fn next(&mut self) -> u64 {
        // Knuth's MMIX generator. Its upper bits are the most random ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (64 << 10) + (self.0 >> 33) % 1008 * 4096
    }
}

/// The contents of files, one after the other.
struct Files {
    paths: std::vec::IntoIter<PathBuf>,
    current: Option<File>,
}

impl Files {
    fn of_this_machine() -> Result<Self> {
        let mut paths = Vec::new();
        for root in FILES {
            collect(Path::new(root), &mut paths)?;
        }
        Ok(Self {
            paths: paths.into_iter(),
            current: None,
        })
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            let Some(file) = &mut self.current else {
                let next = self.paths.next();
                let path = next.with_context(|| format!("{FILES:?} hold less than the image"))?;
                self.current = Some(File::open(&path)?);
                filled = filled.next_multiple_of(4096).min(buffer.len());
                continue;
            };
            match file.read(&mut buffer[filled..])? {
                0 => self.current = None,
                count => filled += count,
            }
        }
        Ok(())
    }
}

/// Collects the non-empty regular files below a folder, sorted by name.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), paths)?;
        } else if kind.is_file() && entry.metadata()?.len() > 0 {
            paths.push(entry.path());
        }
    }
    Ok(())
}

fn sha256_of(path: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    in_granules(path, |granule| hasher.update(granule))?;
    let digest = hasher.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn data_bytes(path: &Path) -> Result<u64> {
    let mut count = 0;
    in_granules(path, |granule| {
        if granule.iter().any(|&byte| byte != 0) {
            count += granule.len() as u64;
        }
    })?;
    Ok(count)
}

fn in_granules(path: &Path, mut visit: impl FnMut(&[u8])) -> Result<()> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut granule = Vec::with_capacity(GRANULE);
    loop {
        granule.clear();
        (&mut file).take(GRANULE as u64).read_to_end(&mut granule)?;
        if granule.is_empty() {
            return Ok(());
        }
        visit(&granule);
    }
}
