//! Lists the media in the drives of a host and decides what each is used for.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use landfall_media_formats::coreos_image::{self, CoreosImage};

use super::MediaText;
use super::confined_medium::{ConfinedMedium, NoMedium};

/// In bytes. BMCs present small images as USB disks; a USB disk of this size or
/// more is an ordinary disk.
const USB_DISK_LIMIT: u64 = 4 << 30;

/// SCSI's peripheral device type of CD and DVD drives (SPC-4, table 138).
const CD_TYPE: &str = "5";

/// Labels of the ISOs that Ironic builds: with and without the host's network
/// data.
const CONFIG_2: &str = "config-2";
const BOOT_ISO: &str = "VMEDIA_BOOT_ISO";
/// Label of the medium with `parameters.txt`.
const PARAMETERS: &str = "ir-vfd-dev";
/// A part of the model name of a virtual drive, in lower case. It is used if
/// the medium has no label.
const MODEL: &str = "virtual media";

/// A medium with a file system.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) node: PathBuf,
    /// The drive's model name.
    model: String,
    medium: ConfinedMedium,
}

impl Volume {
    pub(super) fn says(&self, text: String) -> MediaText {
        MediaText {
            text,
            device: self.node.display().to_string(),
        }
    }

    pub(super) fn fault(&self, text: &str) -> String {
        format!("{}: {text}", self.node.display())
    }

    /// Reads a file of at most `limit` bytes; `None` if there is none.
    pub(super) fn read(&mut self, path: &str, limit: u32) -> Result<Option<Vec<u8>>, String> {
        let read = self.medium.read(path, limit);
        read.map_err(|error| self.fault(&error))
    }

    pub(super) fn files(&mut self, directory: &str) -> Result<Vec<String>, String> {
        let files = self.medium.files(directory);
        files.map_err(|error| self.fault(&error))
    }

    /// The description of the CoreOS image on this medium, if there is one. Does
    /// not read the image itself.
    pub(super) fn coreos_image(&mut self) -> Result<Option<CoreosImage>, String> {
        let limit = coreos_image::DESCRIPTION_LIMIT;
        let Some(json) = self.read(coreos_image::DESCRIPTION, limit)? else {
            return Ok(None);
        };
        let fault = |reason: &str| self.fault(&format!("{}: {reason}", coreos_image::DESCRIPTION));
        CoreosImage::from_json(&json)
            .map(Some)
            .map_err(|error| fault(&error.to_string()))
    }

    /// Whether the label promises `parameters.txt`; the file may still be missing.
    pub(super) fn holds_parameters(&self) -> bool {
        self.is_labelled(PARAMETERS)
    }

    /// Whether this is one of the two kinds of ISO that Ironic builds.
    pub(super) fn is_boot_medium(&self, publisher: &str) -> bool {
        (self.is_labelled(CONFIG_2) || self.is_labelled(BOOT_ISO)) && !self.is_of_other(publisher)
    }

    pub(super) fn label(&self) -> &str {
        &self.medium.facts.label
    }

    /// The publisher of an ISO 9660 image; may be empty. `None` for other file systems.
    fn publisher(&self) -> Option<&str> {
        self.medium.facts.publisher.as_deref()
    }

    fn is_labelled(&self, label: &str) -> bool {
        self.label().eq_ignore_ascii_case(label)
    }

    fn is_of(&self, publisher: &str) -> bool {
        let ours = self.publisher().unwrap_or_default();
        ours.eq_ignore_ascii_case(publisher)
    }

    /// Whether this is an ISO of another publisher, left in the drive. False if
    /// this boot names no publisher.
    fn is_of_other(&self, publisher: &str) -> bool {
        self.publisher().is_some() && !publisher.is_empty() && !self.is_of(publisher)
    }
}

/// Chooses the medium for configuration files: an ISO of this publisher takes
/// precedence over other media. Like the next functions, returns an index into
/// `volumes`.
pub(super) fn for_configuration(volumes: &[Volume], publisher: &str) -> Option<usize> {
    let ours = |volume: &Volume| volume.is_boot_medium(publisher);
    let named = volumes.iter().position(|v| ours(v) && v.is_of(publisher));
    named.or_else(|| volumes.iter().position(ours))
}

/// Chooses the medium for the host's network data. An empty publisher matches an
/// empty or missing one: Ironic did not always set one.
pub(super) fn for_network_data(volumes: &[Volume], publisher: &str) -> Option<usize> {
    volumes
        .iter()
        .position(|volume| volume.is_labelled(CONFIG_2) && volume.is_of(publisher))
}

/// The media that may hold `parameters.txt`: the one with the label, otherwise
/// those whose drive has the right name.
pub(super) fn for_parameters(volumes: &[Volume]) -> Vec<usize> {
    match volumes.iter().position(Volume::holds_parameters) {
        Some(labelled) => vec![labelled],
        None => (0..volumes.len())
            .filter(|&at| volumes[at].model.to_lowercase().contains(MODEL))
            .collect(),
    }
}

/// Every medium with a file system in a drive that may present virtual media, in
/// the order of the drives' names. Adds a line to `faults` for each medium whose parser
/// failed.
pub(super) fn in_drives(sys: &Path, dev: &Path, faults: &mut Vec<String>) -> Vec<Volume> {
    in_drives_up_to(sys, dev, USB_DISK_LIMIT, faults)
}

/// Like [`in_drives`], with USB disks of any size: an ISO may have been written to
/// a USB stick.
pub(super) fn in_drives_and_sticks(
    sys: &Path,
    dev: &Path,
    faults: &mut Vec<String>,
) -> Vec<Volume> {
    in_drives_up_to(sys, dev, u64::MAX, faults)
}

fn in_drives_up_to(sys: &Path, dev: &Path, limit: u64, faults: &mut Vec<String>) -> Vec<Volume> {
    let Ok(entries) = fs::read_dir(sys.join("block")) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
        .iter()
        .filter_map(|name| {
            let drive = sys.join("block").join(name);
            may_show_media(&drive, limit).then(|| volume(&drive, &dev.join(name), faults))?
        })
        .collect()
}

/// Whether this is a CD drive, or a USB disk smaller than `limit` bytes.
fn may_show_media(drive: &Path, limit: u64) -> bool {
    if attribute(drive, "device/type") == CD_TYPE {
        return true;
    }
    let on_usb = fs::canonicalize(drive).is_ok_and(|path| {
        path.iter().any(|part| {
            let bus = part.to_str().and_then(|part| part.strip_prefix("usb"));
            bus.is_some_and(|bus| bus.parse::<u32>().is_ok())
        })
    });
    // The unit is 512 bytes, whatever the sector size.
    let sectors: u64 = attribute(drive, "size").parse().unwrap_or(0);
    on_usb && sectors > 0 && sectors < limit / 512
}

/// The file system on the medium; `None` if the drive is empty or unreadable.
fn volume(drive: &Path, node: &Path, faults: &mut Vec<String>) -> Option<Volume> {
    let medium = File::open(node)
        .map_err(|error| NoMedium::Unreadable(error.to_string()))
        .and_then(ConfinedMedium::open)
        .inspect_err(|error| match error {
            NoMedium::Unreadable(error) => {
                tracing::debug!("cannot read the medium in {}: {error}", node.display());
            }
            NoMedium::Parser(fault) => {
                let node = node.display();
                faults.push(format!("{node}: {fault}; the medium is ignored"));
            }
        })
        .ok()??;
    Some(Volume {
        node: node.to_owned(),
        model: attribute(drive, "device/model"),
        medium,
    })
}

fn attribute(drive: &Path, name: &str) -> String {
    let text = fs::read_to_string(drive.join(name)).unwrap_or_default();
    text.trim().to_owned()
}
