//! Reads virtual media, which Ironic inserts into a host's drives in addition to
//! the kernel.
//!
//! They can hold three things, each found by its own rule (`volumes.rs`):
//! configuration files, `parameters.txt` and the network of the host. A network boot
//! gets these from its boot server instead. The agent reads only removable media,
//! because a partition labelled `config-2` on a disk belongs to whatever the disk
//! held before.

mod confined_medium;
mod contents;
mod coreos_image;
mod search;
mod volumes;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use landfall_sys::state_file::{STATE_DIRECTORY, StateFile};
use serde::{Deserialize, Serialize};
use volumes::Volume;

pub use confined_medium::{ConfinedMedium, MediumParser, NoMedium};
pub use coreos_image::{DRIVE_TIMEOUT, ImageInDrive, NoImage, find as coreos_image};

/// The facts about this boot that decide what to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The host booted from virtual media, so configuration files and
    /// `parameters.txt` are read as well as the network.
    pub virtual_media: bool,
    /// The publisher of the ISO that the host booted from, according to the kernel
    /// command line.
    pub publisher: Option<String>,
    /// The host booted over the network.
    pub network_boot: bool,
    /// Ironic's address is known already.
    pub service_known: bool,
    /// The network is known already: the command line has `ip=`, or the ramdisk has a
    /// network plan for this machine.
    pub network_given: bool,
}

impl Wanted {
    /// Whether the agent looks at drives at all. On a network boot without a
    /// publisher it does not, because the settings come from elsewhere.
    pub fn anything(&self) -> bool {
        self.virtual_media || self.network_data()
    }

    /// The kernel command line mentions virtual media, so the agent waits for it.
    fn announced(&self) -> bool {
        self.virtual_media || self.publisher.is_some()
    }

    /// Whether to look for network data. Not on a network boot without a publisher: a
    /// medium in the drive is then an old one. Also not if the network is known and
    /// the command line mentions no virtual media: the search would find nothing of
    /// use.
    fn network_data(&self) -> bool {
        self.publisher.is_some()
            || !self.network_boot && (self.virtual_media || !self.network_given)
    }

    fn publisher(&self) -> &str {
        self.publisher.as_deref().unwrap_or_default()
    }
}

/// A text and the device that it was read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaText {
    pub text: String,
    /// The device node, for example `/dev/sr0`.
    pub device: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Content of `parameters.txt`.
    pub parameters: Option<MediaText>,
    /// Content of `openstack/latest/network_data.json`.
    pub network_data: Option<MediaText>,
    /// The faults of all media, one line each.
    pub warnings: Vec<String>,
}

/// The paths that this module uses; tests use others.
#[derive(Debug, Clone)]
pub struct Places {
    sys: PathBuf,
    dev: PathBuf,
    /// Configuration files are copied to their places below this directory.
    root: PathBuf,
    /// The file from which a restarted agent reads what the first one has read.
    state: StateFile,
}

impl Places {
    /// The paths in the ramdisk.
    pub fn of_ramdisk() -> Self {
        let state = Path::new(STATE_DIRECTORY);
        Self {
            sys: "/sys".into(),
            dev: "/dev".into(),
            root: "/".into(),
            state: StateFile::new(state, "media.json"),
        }
    }
}

/// Looks for virtual media, waits for them if the command line mentions any,
/// and reads them. `settled` returns true when the devices present at boot have
/// their drivers.
///
/// A restarted agent gets what the first one has read, because Ironic may have
/// ejected the media in the meantime.
pub fn read(wanted: &Wanted, places: &Places, settled: impl Fn() -> bool) -> Media {
    if let Ok(Some(bytes)) = places.state.load()
        && let Ok(media) = serde_json::from_slice(&bytes)
    {
        return media;
    }
    let mut search = search::for_volumes(wanted, places, settled);
    let mut media = Media {
        warnings: search.warnings,
        ..Media::default()
    };
    read_volumes(wanted, places, &mut search.volumes, &mut media);
    if let Ok(bytes) = serde_json::to_vec(&media) {
        places.state.store_or_warn(&bytes);
    }
    media
}

fn read_volumes(wanted: &Wanted, places: &Places, volumes: &mut [Volume], media: &mut Media) {
    let publisher = wanted.publisher();
    if wanted.virtual_media {
        if let Some(at) = volumes::for_configuration(volumes, publisher) {
            let volume = &mut volumes[at];
            let (copied, faults) = contents::copy_configuration(volume, &places.root);
            for file in copied {
                tracing::info!("{file} copied from {}", volume.node.display());
            }
            media.warnings.extend(faults);
        }
        media.parameters = read_parameters(volumes, &mut media.warnings);
    }
    if wanted.network_data()
        && let Some(at) = volumes::for_network_data(volumes, publisher)
    {
        let volume = &mut volumes[at];
        match contents::network_data(volume) {
            Ok(Some(text)) => media.network_data = Some(volume.says(text)),
            // A config drive without network data is valid.
            Ok(None) => {}
            Err(fault) => media.warnings.push(fault),
        }
    }
}

fn read_parameters(volumes: &mut [Volume], warnings: &mut Vec<String>) -> Option<MediaText> {
    for at in volumes::for_parameters(volumes) {
        let volume = &mut volumes[at];
        match contents::parameters(volume) {
            Ok(Some(text)) => return Some(volume.says(text)),
            Ok(None) if volume.holds_parameters() => {
                warnings.push(
                    volume.fault("parameters.txt is missing, although the label announces it"),
                );
            }
            Ok(None) => {}
            Err(fault) => warnings.push(fault),
        }
    }
    None
}
