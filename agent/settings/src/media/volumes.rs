//! The media in the drives of a host, and what each is used for.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use landfall_media_formats::coreos_image::{self, CoreosImage};
use landfall_parser_child::Fault;

use super::MediaText;
use super::confined_medium::{ConfinedMedium, MediumError};
use super::side_by_side::Progress;
use super::volume_fault::{Reason, VolumeFault};

/// Labels of the ISOs that Ironic builds: with and without the host's network
/// data.
const CONFIG_2: &str = "config-2";
const BOOT_ISO: &str = "VMEDIA_BOOT_ISO";
/// Label of the medium with `parameters.txt`.
const PARAMETERS: &str = "ir-vfd-dev";
/// A part of the model name of a virtual drive, in lower case. If no medium has the label
/// `PARAMETERS`, the agent looks for `parameters.txt` in the drives with this name.
const MODEL: &str = "virtual media";

/// A medium with a file system.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) node: PathBuf,
    /// The drive's model name.
    model: String,
    medium: ConfinedMedium,
    pub(super) progress: Progress,
}

impl Volume {
    pub(super) fn media_text(&self, text: String) -> MediaText {
        MediaText {
            text,
            device: self.node.display().to_string(),
        }
    }

    pub(super) fn fault(&self, reason: impl Into<Reason>) -> VolumeFault {
        VolumeFault {
            node: self.node.clone(),
            reason: reason.into(),
        }
    }

    /// Reads a file of at most `limit` bytes; `None` if there is no such file.
    pub(super) fn read(&mut self, path: &str, limit: u32) -> Result<Option<Vec<u8>>, VolumeFault> {
        let read = self.medium.read(path, limit);
        read.map_err(|error| self.fault(error))
    }

    pub(super) fn files(&mut self, directory: &str) -> Result<Vec<String>, VolumeFault> {
        let files = self.medium.files(directory);
        files.map_err(|error| self.fault(error))
    }

    /// The description of the CoreOS image on this medium, if there is one. Does
    /// not read the image itself.
    pub(super) fn coreos_image(&mut self) -> Result<Option<CoreosImage>, VolumeFault> {
        let limit = coreos_image::DESCRIPTION_LIMIT;
        let Some(json) = self.read(coreos_image::DESCRIPTION, limit)? else {
            return Ok(None);
        };
        CoreosImage::from_json(&json)
            .map(Some)
            .map_err(|error| self.fault(Reason::Image(error)))
    }

    /// Whether the label promises `parameters.txt`; the file may still be missing.
    pub(super) fn holds_parameters(&self) -> bool {
        self.is_labelled(PARAMETERS)
    }

    /// Whether this is one of the two kinds of ISO that Ironic builds, and not one that
    /// an earlier boot with another publisher has left in the drive.
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

    /// Whether this is an ISO of another publisher that was left in the drive. Always
    /// false if this boot names no publisher.
    fn is_of_other(&self, publisher: &str) -> bool {
        self.publisher().is_some() && !publisher.is_empty() && !self.is_of(publisher)
    }
}

/// Chooses the medium for configuration files: a boot medium of this publisher, otherwise
/// any boot medium ([`Volume::is_boot_medium`]). Returns an index into `volumes`.
pub(super) fn for_configuration(volumes: &[Volume], publisher: &str) -> Option<usize> {
    let ours = |volume: &Volume| volume.is_boot_medium(publisher);
    let named = volumes.iter().position(|v| ours(v) && v.is_of(publisher));
    named.or_else(|| volumes.iter().position(ours))
}

/// Chooses the medium for the host's network data: it has the label `config-2` and this
/// publisher. Returns an index into `volumes`. If this boot names no publisher, the
/// medium must not name one either, because old versions of Ironic name it neither on the
/// command line nor on the medium.
pub(super) fn for_network_data(volumes: &[Volume], publisher: &str) -> Option<usize> {
    volumes
        .iter()
        .position(|volume| volume.is_labelled(CONFIG_2) && volume.is_of(publisher))
}

/// The media that may hold `parameters.txt`: the first one with the label, otherwise all
/// media whose drive has the model name of a virtual drive.
pub(super) fn for_parameters(volumes: &[Volume]) -> Vec<usize> {
    match volumes.iter().position(Volume::holds_parameters) {
        Some(labelled) => vec![labelled],
        None => (0..volumes.len())
            .filter(|&at| volumes[at].model.to_lowercase().contains(MODEL))
            .collect(),
    }
}

/// The medium in a drive. `None` if the drive is empty or unreadable, or if the medium
/// has no known file system. If the parser of the medium fails, the error has the reason.
pub(super) type Opened = Result<Option<Volume>, Fault>;

/// Opens the medium in a drive. Records in `progress` when the drive delivers data.
pub(super) fn open(drive: &Path, node: &Path, progress: Progress) -> Opened {
    let of_session = progress.clone();
    let medium = File::open(node)
        .map_err(|error| MediumError::Unreadable(error.to_string()))
        .and_then(|image| ConfinedMedium::open(image, move || of_session.made()));
    match medium {
        Ok(medium) => Ok(medium.map(|medium| Volume {
            node: node.to_owned(),
            model: attribute(drive, "device/model"),
            medium,
            progress,
        })),
        Err(MediumError::Unreadable(error)) => {
            tracing::debug!("cannot read the medium in {}: {error}", node.display());
            Ok(None)
        }
        Err(MediumError::Parser(fault)) => Err(fault),
    }
}

/// The content of a file of the drive in /sys, without spaces around it. Empty if the
/// file cannot be read.
pub(super) fn attribute(drive: &Path, name: &str) -> String {
    let text = fs::read_to_string(drive.join(name)).unwrap_or_default();
    text.trim().to_owned()
}
