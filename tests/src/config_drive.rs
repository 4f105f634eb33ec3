//! Makes config drives as Ironic does, and finds them on a disk.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::lab::Lab;
use crate::program;

/// A config drive: an ISO 9660 file system with the label `config-2`.
#[derive(Clone)]
pub struct ConfigDrive {
    iso: Vec<u8>,
}

impl ConfigDrive {
    /// Makes a config drive that contains `user_data`.
    pub async fn with_user_data(lab: &Lab, user_data: &str) -> Result<Self> {
        let meta_data = r#"{"uuid": "node-1"}"#;
        let files = [("user_data", user_data), ("meta_data.json", meta_data)];
        let iso = make_iso(lab, &files).await?;
        Ok(Self {
            iso: std::fs::read(&iso)?,
        })
    }

    /// The form in which Ironic passes a config drive: base64 of gzip.
    pub fn encoded(&self) -> Result<String> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&self.iso)?;
        Ok(BASE64_STANDARD.encode(gzip.finish()?))
    }

    /// Checks that exactly one partition of the disk contains this config drive.
    pub async fn check_on(&self, disk: &Path) -> Result<()> {
        let path = disk.display().to_string();
        let partitions = partitions(&path).await?;
        let mut holders = Vec::new();
        for partition in &partitions {
            let mut file = std::fs::File::open(disk)?;
            file.seek(SeekFrom::Start(partition.first_byte))?;
            let mut content = vec![0; self.iso.len().min(usize::try_from(partition.bytes)?)];
            file.read_exact(&mut content)?;
            if content == self.iso {
                holders.push(partition.number);
            }
        }
        ensure!(
            holders.len() == 1,
            "expected the config drive in one partition of {partitions:?}, found it in {holders:?}"
        );
        Ok(())
    }
}

/// Makes a config drive for a CD drive, from which a ramdisk reads the host's
/// network. Returns the ISO's path.
pub async fn with_network_data(lab: &Lab, network_data: &str) -> Result<PathBuf> {
    make_iso(lab, &[("network_data.json", network_data)]).await
}

/// Makes an ISO with these files below `openstack/latest`. Returns its path.
async fn make_iso(lab: &Lab, files: &[(&str, &str)]) -> Result<PathBuf> {
    let tree = lab.path("config-drive");
    let latest = tree.join("openstack/latest");
    std::fs::create_dir_all(&latest)?;
    for (name, content) in files {
        std::fs::write(latest.join(name), content)?;
    }
    let iso = lab.path("config-drive.iso");
    let (iso_text, tree) = (iso.display().to_string(), tree.display().to_string());
    program::run(
        "xorriso",
        &[
            "-as", "mkisofs", "-quiet", "-J", "-r", "-V", "config-2", "-o", &iso_text, &tree,
        ],
    )
    .await?;
    Ok(iso)
}

/// A partition as sgdisk(8) prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    pub number: u32,
    pub first_byte: u64,
    pub bytes: u64,
}

/// The partitions of a disk with 512-byte sectors. sgdisk reads the table, so this
/// check is independent of the agent's code. Fails if the GPT has any fault, such
/// as a backup header that is not at the end.
pub async fn partitions(disk: &str) -> Result<Vec<Partition>> {
    let verified = program::run("sgdisk", &["-v", disk]).await?;
    let verified = String::from_utf8_lossy(&verified.stdout).into_owned();
    ensure!(
        verified.contains("No problems found"),
        "sgdisk -v {disk}:\n{verified}"
    );
    let printed = program::run("sgdisk", &["-p", disk]).await?;
    parse_partitions(&String::from_utf8_lossy(&printed.stdout))
}

fn parse_partitions(text: &str) -> Result<Vec<Partition>> {
    text.lines()
        .skip_while(|line| !line.trim_start().starts_with("Number"))
        .skip(1)
        .map(|line| {
            let mut words = line.split_whitespace().map(str::parse::<u64>);
            let mut next = || {
                words
                    .next()
                    .and_then(Result::ok)
                    .with_context(|| format!("sgdisk's line '{line}'"))
            };
            let (number, first, last) = (next()?, next()?, next()?);
            Ok(Partition {
                number: u32::try_from(number)?,
                first_byte: first * 512,
                bytes: (last + 1 - first) * 512,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sgdisk_s_table_is_read() {
        let text = "Disk d: 10485760 sectors, 5.0 GiB\n\
                    Number  Start (sector)    End (sector)  Size       Code  Name\n   \
                    1            2048            4095   1024.0 KiB  EF02  BIOS-BOOT\n   \
                    5        10354688        10485726   64.0 MiB    8300  \n";
        let want = [
            Partition {
                number: 1,
                first_byte: 1 << 20,
                bytes: 1 << 20,
            },
            Partition {
                number: 5,
                first_byte: 10_354_688 * 512,
                bytes: 131_039 * 512,
            },
        ];
        assert_eq!(parse_partitions(text).unwrap(), want);
        assert!(parse_partitions("Number\nno numbers here\n").is_err());
    }
}
