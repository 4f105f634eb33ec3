//! Reports what an installation is going to do, and what it has done.

use std::fs::File;

use landfall_disk::image::format_policy::Format;
use landfall_disk::image::proven_image::WrittenImage;
use landfall_download::fetch::shown;
use landfall_download::proof::Proof;
use landfall_handover::install_coreos;
use landfall_installation::{BootEntry, Installation};
use landfall_report::failure::{Failure, Result};
use landfall_report::mib;
use landfall_sys::block_ioctl;
use serde_json::{Value, json};

use crate::tools::stdout;

/// An installation and the disk that it is for.
pub struct Plan<'a> {
    installation: &'a Installation,
    disk_bytes: u64,
    sector_bytes: u32,
}

impl<'a> Plan<'a> {
    /// Reads the size of the disk. Fails if the disk does not report it.
    pub fn of(installation: &'a Installation) -> Result<Self> {
        let size = || {
            let file = File::open(&installation.disk.path)?;
            let size = block_ioctl::size_bytes(&file)?;
            Ok((size, block_ioctl::logical_sector_size(&file)?))
        };
        let (disk_bytes, sector_bytes) = size().map_err(|error: std::io::Error| {
            let details = format!(
                "cannot read the size of {}: {error}",
                installation.disk.path.display()
            );
            Failure::block_device(details)
        })?;
        Ok(Self {
            installation,
            disk_bytes,
            sector_bytes,
        })
    }

    /// Prints the plan, for programs or for people.
    pub fn print(&self, as_json: bool) -> Result<()> {
        if as_json {
            return stdout::line(self.json());
        }
        self.lines().iter().try_for_each(stdout::line)
    }

    /// The plan as text for people.
    fn lines(&self) -> Vec<String> {
        let Installation {
            image,
            disk,
            options,
            changes,
            boot_entry,
        } = self.installation;
        let mut lines = vec![
            format!("image:       {}", self.urls().join(", else ")),
            format!("proof:       {}", proof_text(&image.proof)),
            format!(
                "disk:        {} ({}, {} byte sectors)",
                disk.path.display(),
                mib(self.disk_bytes),
                self.sector_bytes
            ),
        ];
        if !options.saved.is_empty() {
            let kept = texts(&options.saved).join(", ");
            lines.push(format!("keeping:     partitions with {kept}"));
        }
        if options.verify {
            lines.push("read back:   the whole image".to_owned());
        }
        if !changes.is_empty() {
            let summary = install_coreos::summary(changes, None);
            lines.push(format!("installed:   {summary}"));
        }
        lines.push(format!(
            "boot entry:  {}",
            match boot_entry {
                BootEntry::Required | BootEntry::Wanted | BootEntry::Optional =>
                    "one in this machine's firmware, if that is UEFI",
                BootEntry::Leave => "none, this machine's firmware is not changed",
            }
        ));
        lines.push("nothing was changed (--dry-run)".to_owned());
        lines
    }

    /// The plan as JSON for programs.
    fn json(&self) -> Value {
        let Installation {
            image,
            disk,
            options,
            changes,
            boot_entry,
        } = self.installation;
        let keyfiles: Vec<&String> = changes
            .network_keyfiles
            .iter()
            .map(|file| &file.0)
            .collect();
        json!({
            "dry_run": true,
            "image": {"urls": self.urls(), "proof": proof_json(&image.proof)},
            "disk": {
                "path": disk.path,
                "bytes": self.disk_bytes,
                "sector_bytes": self.sector_bytes,
            },
            "kept_partitions": texts(&options.saved),
            "preserve_on_error": options.preserve_on_error,
            "verify": options.verify,
            "ignition_bytes": changes.ignition.as_ref().map(Vec::len),
            "platform": changes.platform,
            "consoles": texts(&changes.consoles),
            "append_kargs": changes.append_kargs,
            "delete_kargs": changes.delete_kargs,
            "firstboot_args": changes.firstboot_args,
            "network_keyfiles": keyfiles,
            "boot_entry": *boot_entry != BootEntry::Leave,
        })
    }

    fn urls(&self) -> Vec<String> {
        let urls = self.installation.image.request.urls.iter();
        urls.map(|url| shown(url)).collect()
    }
}

fn texts<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn proof_text(proof: &Proof) -> String {
    match proof {
        Proof::Digest(digest) => format!("{} {}", digest.algorithm(), digest.hex()),
        Proof::Signature(signature) => format!("signature by key {}", signature.key()),
        Proof::Nothing => "none, the image is written unverified".to_owned(),
    }
}

fn proof_json(proof: &Proof) -> Value {
    match proof {
        Proof::Digest(digest) => {
            json!({"algorithm": digest.algorithm().to_string(), "digest": digest.hex()})
        }
        Proof::Signature(signature) => json!({"signed_by": signature.key().to_string()}),
        Proof::Nothing => Value::Null,
    }
}

/// What was installed, as JSON for programs.
pub fn result(installation: &Installation, written: &WrittenImage) -> Value {
    json!({
        "disk": installation.disk.path,
        "url": written.url,
        "packing": written.packing.to_string(),
        "qcow2": written.format == Format::Qcow2,
        "verified": written.verified,
        "algorithm": written.digest.digest.algorithm().to_string(),
        "digest": written.digest.digest.hex(),
        "downloaded_bytes": written.digest.bytes,
        "image_bytes": written.image_bytes,
        "written_bytes": written.written.data,
        "seconds": written.seconds,
    })
}
