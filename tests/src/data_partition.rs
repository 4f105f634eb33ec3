//! Partitions that an installation on their disk must keep or remove.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;

use crate::program;

const MIB: u64 = 1 << 20;

/// A partition full of data.
#[derive(Debug, Clone, Copy)]
pub struct DataPartition {
    pub number: usize,
    /// The number after the installation. `None` if the partition is not kept.
    pub after: Option<usize>,
    /// The partition's name in the GPT.
    pub name: &'static str,
    /// Start and length in MiB.
    pub mib: (u64, u64),
}

impl DataPartition {
    /// Gives a disk a GPT with only these partitions, each full of data.
    pub async fn make(disk: &Path, partitions: &[Self]) -> Result<()> {
        let mut arguments = vec!["--clear".to_owned()];
        for Self {
            number,
            name,
            mib: (first, count),
            ..
        } in partitions
        {
            arguments.extend([
                format!("--new={number}:{first}M:+{count}M"),
                format!("--change-name={number}:{name}"),
                // The GUIDs are the same on every disk.
                format!("--partition-guid={number}:5ca1ab1e-0000-4000-8000-{number:012}"),
            ]);
        }
        arguments.push(disk.display().to_string());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        program::run("sgdisk", &arguments).await?;
        let file = OpenOptions::new().write(true).open(disk)?;
        for partition in partitions {
            for mib in partition.all_mib() {
                file.write_all_at(&partition.content(mib), mib * MIB)?;
            }
        }
        Ok(())
    }

    /// Positions of the partition's MiBs, counted from the start of the disk.
    pub fn all_mib(&self) -> std::ops::Range<u64> {
        self.mib.0..self.mib.0 + self.mib.1
    }

    /// The content of the disk's MiB `mib`. It differs from the content of every
    /// other MiB and partition.
    #[must_use]
    pub fn content(&self, mib: u64) -> Vec<u8> {
        let line = format!("{} {mib:08}\n", self.name);
        let mut bytes = line.repeat(MIB as usize / line.len() + 1).into_bytes();
        bytes.truncate(MIB as usize);
        bytes
    }
}
