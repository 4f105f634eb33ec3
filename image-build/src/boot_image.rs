//! Changes the boot partition of a CoreOS disk image: without root, without a mount, and
//! with the same code as the agent, which changes a mounted partition.

mod disk;
mod ext4_files;
mod qcow2_access;
mod qcow2_disk;
mod refcounts;

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use landfall_disk::image::qcow2::header::{Header, MAGIC};
use landfall_disk::tables::gpt::{HEAD_LEN, Table};
use landfall_disk::tables::table_error::TableError;
use landfall_handover::boot_files::BootFiles as _;
use landfall_handover::boot_partition::{self, BootPartition};
use landfall_handover::install_coreos::{self, CoreosChanges};
use landfall_handover::{boot_loader_entry, firstboot_keyfiles};

use disk::{Disk, Partition};
use ext4_files::Ext4Files;
use qcow2_disk::Qcow2Disk;

const EXPECTED: &str =
    "expected a disk image with a GPT, raw or qcow2 (plain or in gzip, xz or zstd)";
/// How many bytes longer than its disk a file may be.
const SLACK: u64 = 64 << 20;

/// An unpacked disk image with its boot partition.
pub(crate) struct BootImage {
    disk: Disk,
    boot: BootPartition,
}

/// The settings that the boot partition contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BootSettings {
    /// The permanent kernel arguments.
    pub(crate) kernel_args: String,
    /// The names of the NetworkManager keyfiles for the first boot.
    pub(crate) network_keyfiles: Vec<String>,
}

impl BootImage {
    /// `name` is for messages.
    pub(crate) fn open(file: File, name: &Path) -> Result<Self> {
        let name = name.display();
        let mut start = [0; 4];
        let is_qcow2 = {
            use std::os::unix::fs::FileExt as _;
            // A file of less than four bytes is no image of any format.
            file.read_exact_at(&mut start, 0).is_ok() && start == *MAGIC
        };
        let disk = if is_qcow2 {
            let disk = Qcow2Disk::open(file).with_context(|| format!("{name}: cannot use it"))?;
            Disk::Qcow2(Box::new(disk))
        } else {
            let size = file
                .metadata()
                .with_context(|| format!("cannot read {name}"))?;
            Disk::Raw(file, size.len())
        };
        let table = partition_table(&disk).with_context(|| format!("{name}: {EXPECTED}"))?;
        let read = |at, buffer: &mut [u8]| disk.read_at(at, buffer);
        let found = boot_partition::find_in(&name, &table, read);
        let boot = found.map_err(|failure| match failure.hint {
            // The agent's hint is for its own steps, so replace it.
            Some(_) => failure.hint("give a disk image of RHCOS or FCOS"),
            None => failure,
        })?;
        let end = boot.partition.offset + boot.partition.len;
        if end > disk.size() {
            bail!(
                "{name}: the boot partition ends at byte {end}, but the image at byte {}",
                disk.size()
            );
        }
        Ok(Self { disk, boot })
    }

    /// `raw` or `qcow2`.
    pub(crate) fn format(&self) -> &'static str {
        match self.disk {
            Disk::Raw(..) => "raw",
            Disk::Qcow2(_) => "qcow2",
        }
    }

    fn files(&self) -> Result<Ext4Files<Partition<'_>>> {
        let partition = &self.boot.partition;
        let storage = Partition {
            disk: &self.disk,
            offset: partition.offset,
            len: partition.len,
        };
        Ext4Files::open(storage, partition.len).with_context(|| {
            format!(
                "cannot use the boot partition (number {})",
                partition.number
            )
        })
    }

    pub(crate) fn settings(&self) -> Result<BootSettings> {
        settings(&self.files()?)
    }

    /// Makes the changes, and returns the settings of the image after them.
    ///
    /// # Errors
    /// If a change cannot be made. The image is then unchanged, except if the write
    /// itself failed.
    pub(crate) fn change(&mut self, changes: &CoreosChanges) -> Result<BootSettings> {
        let files = self.files()?;
        install_coreos::apply(&files, changes)?;
        let settings = settings(&files)?;
        let offset = self.boot.partition.offset;
        let changes = files.into_changes();
        for (at, block) in &changes {
            let written = self.disk.write_at(offset + at, block);
            written.context("cannot write the boot partition")?;
        }
        self.disk.finish().context("cannot write the image")?;
        Ok(settings)
    }
}

fn settings(files: &Ext4Files<Partition<'_>>) -> Result<BootSettings> {
    let directory = Path::new(firstboot_keyfiles::DIRECTORY);
    let mut network_keyfiles = Vec::new();
    if files.exists(directory)? {
        let names = files.names(directory)?.into_iter();
        network_keyfiles = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        network_keyfiles.sort();
    }
    Ok(BootSettings {
        kernel_args: boot_loader_entry::options(files)?,
        network_keyfiles,
    })
}

/// The largest size of an unpacked image file, in bytes, according to its first
/// [`HEAD_LEN`] bytes. A compressed file of a few megabytes can claim to unpack to
/// terabytes.
///
/// # Errors
/// If the bytes are not the start of an image that [`BootImage::open`] accepts.
pub(crate) fn most_bytes(head: &[u8]) -> Result<u64> {
    let disk = if head.starts_with(MAGIC) {
        let header = Header::parse(head).map_err(|reason| anyhow::anyhow!("qcow2: {reason}"))?;
        // The file also has tables and refcounts, and clusters that are no longer used.
        header.size.saturating_add(header.size / 4)
    } else {
        table_in(head).context(EXPECTED)?.image_size()
    };
    Ok(disk.saturating_add(SLACK))
}

fn partition_table(disk: &Disk) -> Result<Table> {
    let len = disk.size().min(HEAD_LEN as u64);
    // At most HEAD_LEN.
    let mut head = vec![0; len as usize];
    disk.read_at(0, &mut head)
        .context("cannot read its first bytes")?;
    table_in(&head)
}

fn table_in(head: &[u8]) -> Result<Table> {
    let mut reason = TableError::Missing;
    for sector in [512, 4096] {
        match Table::parse(head, sector) {
            Ok(table) => return Ok(table),
            Err(error) if landfall_disk::tables::gpt::has_signature(head, sector) => {
                reason = error;
            }
            Err(_) => {}
        }
    }
    Err(reason.into())
}
