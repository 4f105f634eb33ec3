//! Reads virtual media: images that Ironic inserts into a host's virtual drives.
//!
//! The media can hold three things, each found by its own rule (`volumes.rs`):
//! configuration files, `parameters.txt` and the network of the host. A network boot gets
//! these from its boot server instead. The agent reads only removable media, because a
//! partition labelled `config-2` on a disk may be left from an earlier system.

mod confined_medium;
mod contents;
mod coreos_image;
mod drives;
mod media_wait;
mod search;
mod side_by_side;
mod volume_content;
mod volume_fault;
mod volumes;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use landfall_sys::state_file::{STATE_DIRECTORY, StateFile};
use media_wait::MediaWait;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

pub use confined_medium::{ConfinedMedium, MediumError, MediumParser};
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
    /// Whether the agent looks at drives at all: for configuration files and
    /// `parameters.txt`, or for network data.
    pub fn anything(&self) -> bool {
        self.virtual_media || self.network_data()
    }

    /// The kernel command line mentions virtual media, so the agent waits for it.
    fn announced(&self) -> bool {
        self.virtual_media || self.publisher.is_some()
    }

    /// Whether to look for network data. The agent does not look on a network boot
    /// without a publisher, because a medium in the drive is then an old one. It also
    /// does not look if the network is known and the command line mentions no virtual
    /// media, because the search would find nothing of use.
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

/// The paths and the limit that this module uses; tests use others.
#[derive(Debug, Clone)]
pub struct Places {
    sys: PathBuf,
    dev: PathBuf,
    /// Configuration files are copied to the same paths below this directory.
    root: PathBuf,
    /// The file in which the agent stores what it has read, for an agent after a restart.
    state: StateFile,
    /// See [`drives::SILENCE`].
    silence: Duration,
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
            silence: drives::SILENCE,
        }
    }
}

/// Looks for virtual media and reads them. Waits longer for them if the command line
/// mentions any. `settled` returns true when the devices present at boot have their
/// drivers.
///
/// A restarted agent gets what the first agent has read, because Ironic may have
/// ejected the media in the meantime.
pub async fn read(
    wanted: Wanted,
    places: Places,
    settled: impl Fn() -> bool + Send + 'static,
) -> Media {
    let start = Instant::now();
    let media_wait = MediaWait::new(wanted.announced());
    read_within(media_wait.clone(), move || {
        read_now(&wanted, &places, &media_wait, settled)
    })
    .await
    .unwrap_or_else(|| Media {
        warnings: vec![format!(
            "virtual media could not be read within {} s; continuing without them",
            start.elapsed().as_secs()
        )],
        ..Media::default()
    })
}

/// The result of `read`; `None` if the agent gives up first. `read` stores what it
/// reads by [`MediaWait::store`].
async fn read_within(
    media_wait: MediaWait,
    read: impl FnOnce() -> Option<Media> + Send + 'static,
) -> Option<Media> {
    let (done, mut reading) = oneshot::channel();
    // Reads the media on a separate thread. A thread of the runtime that hangs in
    // the kernel would also keep the runtime from ending.
    std::thread::spawn(move || {
        let _ = done.send(read());
    });
    loop {
        match tokio::time::timeout_at(media_wait.end().into(), &mut reading).await {
            Ok(media) => return media.ok().flatten(),
            // Progress has extended the wait.
            Err(_) if media_wait.end() > Instant::now() => {}
            Err(_) if media_wait.give_up() => return None,
            // The reader has stored the media already, so its result comes at once.
            Err(_) => return reading.await.ok().flatten(),
        }
    }
}

/// Returns the media that an agent before a restart has stored; otherwise reads the media
/// and stores what it has read. `None` if the agent has given up; then nothing is stored.
fn read_now(
    wanted: &Wanted,
    places: &Places,
    media_wait: &MediaWait,
    settled: impl Fn() -> bool,
) -> Option<Media> {
    if let Ok(Some(bytes)) = places.state.load()
        && let Ok(media) = serde_json::from_slice(&bytes)
    {
        return Some(media);
    }
    let search = search::for_volumes(wanted, places, media_wait, settled);
    let mut media = Media {
        warnings: search.warnings,
        ..Media::default()
    };
    let configuration = volume_content::read(wanted, search.volumes, media_wait, &mut media);
    media_wait.store(|| {
        media.warnings.extend(configuration.write(&places.root));
        if let Ok(bytes) = serde_json::to_vec(&media) {
            places.state.store_or_warn(&bytes);
        }
        media
    })
}
