//! Reads what is wanted from each volume, all volumes at the same time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::contents::{self, Configuration};
use super::drives::push_silent;
use super::media_wait::MediaWait;
use super::side_by_side::SideBySide;
use super::volume_fault::{Reason, VolumeFault};
use super::volumes::{self, Volume};
use super::{Media, MediaText, Wanted};

type Text = Result<Option<MediaText>, VolumeFault>;

/// What to read from one volume.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    configuration: bool,
    parameters: bool,
    network_data: bool,
}

/// What was read from one volume.
#[derive(Debug, Default)]
struct Content {
    configuration: Configuration,
    parameters: Option<Text>,
    network_data: Option<Text>,
}

/// Reads the wanted parts of all volumes. Adds the texts and the warnings to `media`, and
/// returns the configuration files. If several volumes have `parameters.txt`, the volume
/// whose device node comes first takes precedence.
pub(super) fn read(
    wanted: &Wanted,
    volumes: Vec<Volume>,
    media_wait: &MediaWait,
    media: &mut Media,
) -> Configuration {
    let parts = choose(wanted, &volumes);
    // Wait for each volume until the agent gives up, because nothing else can be done
    // meanwhile.
    let mut readers = SideBySide::new(media_wait, Duration::MAX, "reading virtual media");
    for (volume, parts) in volumes.into_iter().zip(parts) {
        if !parts.any() {
            continue;
        }
        let (node, progress) = (volume.node.clone(), volume.progress.clone());
        if !readers.start(node.clone(), progress, move || parts.read(volume)) {
            push_silent(&mut media.warnings, &node);
        }
    }
    let contents = readers.wait();
    for node in readers.pending() {
        push_silent(&mut media.warnings, node);
    }
    merge(contents, media)
}

fn choose(wanted: &Wanted, volumes: &[Volume]) -> Vec<Parts> {
    let publisher = wanted.publisher();
    let mut parts = vec![Parts::default(); volumes.len()];
    if wanted.virtual_media {
        if let Some(at) = volumes::for_configuration(volumes, publisher) {
            parts[at].configuration = true;
        }
        for at in volumes::for_parameters(volumes) {
            parts[at].parameters = true;
        }
    }
    if wanted.network_data()
        && let Some(at) = volumes::for_network_data(volumes, publisher)
    {
        parts[at].network_data = true;
    }
    parts
}

/// If there are several `parameters.txt`, the first one takes effect.
fn merge(contents: BTreeMap<PathBuf, Content>, media: &mut Media) -> Configuration {
    let mut contents: Vec<Content> = contents.into_values().collect();
    let mut configuration = Configuration::default();
    for content in &mut contents {
        configuration.add(std::mem::take(&mut content.configuration));
    }
    media.warnings.append(&mut configuration.faults);
    for content in &mut contents {
        match content.parameters.take() {
            Some(Ok(Some(text))) => {
                media.parameters = Some(text);
                break;
            }
            Some(Ok(None)) | None => {}
            Some(Err(fault)) => media.warnings.push(fault.to_string()),
        }
    }
    for content in contents {
        match content.network_data {
            Some(Ok(Some(text))) => media.network_data = Some(text),
            // A config drive without network data is valid.
            Some(Ok(None)) | None => {}
            Some(Err(fault)) => media.warnings.push(fault.to_string()),
        }
    }
    configuration
}

impl Parts {
    fn any(self) -> bool {
        self.configuration || self.parameters || self.network_data
    }

    fn read(self, mut volume: Volume) -> Content {
        let mut content = Content::default();
        if self.configuration {
            content.configuration = contents::configuration(&mut volume);
        }
        if self.parameters {
            content.parameters = Some(parameters(&mut volume));
        }
        if self.network_data {
            let text = contents::network_data(&mut volume);
            content.network_data = Some(text.map(|text| text.map(|text| volume.media_text(text))));
        }
        content
    }
}

fn parameters(volume: &mut Volume) -> Text {
    match contents::parameters(volume)? {
        Some(text) => Ok(Some(volume.media_text(text))),
        None if volume.holds_parameters() => Err(volume.fault(Reason::NoParameters)),
        None => Ok(None),
    }
}
