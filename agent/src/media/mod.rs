//! Virtual media: what Ironic puts into the drive of a host beside the kernel.
//!
//! Three things can be on them, each by a rule of its own (`volumes.rs`):
//! configuration files, `parameters.txt` and the network of the host. They are
//! what a boot over the network gets from its boot server, and they are taken
//! from removable media alone: a partition labelled `config-2` on a disk is the
//! config drive of whatever the disk held before.

mod contents;
mod coreos_image;
mod search;
mod volumes;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::state_file::{STATE_DIRECTORY, StateFile};
use volumes::Volume;

pub use coreos_image::{DRIVE_PATIENCE, ImageInDrive, NoImage, find as coreos_image};

/// What is to be looked for in this boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The host was booted from virtual media: configuration files and
    /// `parameters.txt` are taken as well as the network.
    pub virtual_media: bool,
    /// The publisher of the ISO that the host was booted from, as the kernel
    /// command line says it.
    pub publisher: Option<String>,
    /// The host was booted over the network.
    pub network_boot: bool,
    /// Ironic's address is known already.
    pub service_known: bool,
    /// The command line says what the network shall be.
    pub network_given: bool,
}

impl Wanted {
    /// Whether there can be anything. A boot over the network has its settings
    /// from elsewhere, and looks at no drive.
    pub fn anything(&self) -> bool {
        self.virtual_media || self.network_data()
    }

    /// The command line speaks of a medium, so one is waited for.
    fn announced(&self) -> bool {
        self.virtual_media || self.publisher.is_some()
    }

    /// A network boot that names no publisher: what is in the drive is old.
    /// Where nobody speaks of a medium, none is looked for in vain.
    fn network_data(&self) -> bool {
        self.publisher.is_some()
            || !self.network_boot && (self.virtual_media || !self.network_given)
    }

    fn publisher(&self) -> &str {
        self.publisher.as_deref().unwrap_or_default()
    }
}

/// A text and the device it was read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaText {
    /// The text.
    pub text: String,
    /// The device: `/dev/sr0`.
    pub device: String,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// `parameters.txt`.
    pub parameters: Option<MediaText>,
    /// `openstack/latest/network_data.json`.
    pub network_data: Option<MediaText>,
    /// What was wrong, one line each.
    pub warnings: Vec<String>,
}

/// Where a machine keeps what is needed here; another place in tests.
#[derive(Debug, Clone)]
pub struct Places {
    /// /sys
    sys: PathBuf,
    /// /dev
    dev: PathBuf,
    /// /, the root of where configuration files are copied to.
    root: PathBuf,
    /// What an agent remembers that is started again.
    state: StateFile,
}

impl Places {
    /// Those of the ramdisk.
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

/// Looks for media, waits for them where there must be one, and reads them.
/// `settled` tells when the devices of the boot have their drivers.
///
/// An agent that is started again gets what the first one has read: Ironic
/// takes the media out of the drive at a time of its own.
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
            // A config drive need not say anything about the network.
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
                warnings
                    .push(volume.fault("parameters.txt is not on it, though its label says so"));
            }
            Ok(None) => {}
            Err(fault) => warnings.push(fault),
        }
    }
    None
}
