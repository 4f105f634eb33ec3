//! Waits for virtual media: a BMC's drive may appear long after the kernel has
//! started.

use std::time::{Duration, Instant};

use landfall_sys::uevent::{Received, UeventSocket};

use super::drives::Drives;
use super::media_wait::MediaWait;
use super::side_by_side::in_words;
use super::volumes::{self, Volume};
use super::{Places, Wanted};

/// How long the agent waits for virtual media that the kernel command line
/// mentions. The ramdisk of Ironic's agent waits as long.
const LIMIT: Duration = Duration::from_secs(30);
/// How long the agent waits if the command line mentions no virtual media. The machine
/// may still have booted from the builder's own image, with a config drive as a second
/// medium.
const UNANNOUNCED_LIMIT: Duration = Duration::from_secs(3);
/// How long the agent waits for a second medium after the first.
const SECOND_MEDIUM: Duration = Duration::from_secs(5);
/// How often the agent looks at the drives. The kernel reports an inserted medium
/// only if it polls the drive, which it does not do by default.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The wait is logged only if it takes longer than this.
const LOG_AFTER: Duration = Duration::from_secs(2);

/// The result of a search.
pub(super) struct Search {
    pub(super) volumes: Vec<Volume>,
    pub(super) warnings: Vec<String>,
}

/// Looks into the drives until they contain what is wanted, at most for [`LIMIT`] or
/// [`UNANNOUNCED_LIMIT`]. After the first of two wanted media, it waits [`SECOND_MEDIUM`]
/// for the other. If the command line mentions no virtual media, the search ends as soon
/// as all devices are there (`settled`) and no drive has a wanted medium. If no wanted
/// medium was found and a drive does not answer, the search continues until the agent
/// gives up, because the slow medium may be the wanted one.
pub(super) fn for_volumes(
    wanted: &Wanted,
    places: &Places,
    media_wait: &MediaWait,
    settled: impl Fn() -> bool,
) -> Search {
    let announced = wanted.announced();
    let limit = if announced { LIMIT } else { UNANNOUNCED_LIMIT };
    // Open the socket before the first look, so that no event is missed.
    let events = UeventSocket::open().ok();
    let start = Instant::now();
    let mut first_seen = None;
    let (mut logged, mut silence_logged) = (false, false);
    let mut drives = Drives::new(places, media_wait);
    loop {
        // Call `settled` before the drives are read: if it returns true, the read finds
        // every device.
        let all_there = settled();
        let look = drives.look();
        let now = Instant::now();
        let state = state(&look.volumes, wanted);
        if state != State::Nothing {
            first_seen.get_or_insert(now);
        }
        let over = match state {
            State::Complete => true,
            State::Partial => first_seen.is_some_and(|seen| now - seen > SECOND_MEDIUM),
            State::Nothing => !announced && all_there && look.silent.is_empty(),
        };
        if over {
            return Search {
                warnings: look.all_faults(),
                volumes: look.volumes,
            };
        }
        let elapsed = now - start;
        if announced && !logged && elapsed > LOG_AFTER {
            logged = true;
            tracing::info!("waiting for virtual media, at most {} s", limit.as_secs());
        }
        let may_answer = state == State::Nothing && !look.silent.is_empty();
        let left = if may_answer {
            let left = media_wait.left_to_reader();
            if !silence_logged {
                silence_logged = true;
                let drives = in_words(&look.silent);
                tracing::info!(
                    "waiting for {drives} to answer, at most {} s",
                    left.as_secs()
                );
            }
            left
        } else {
            limit.saturating_sub(elapsed)
        };
        if left.is_zero() {
            let mut warnings = look.all_faults();
            if announced && state == State::Nothing {
                warnings.push(format!(
                    "no virtual media within {} s, although the kernel command line mentions them{}",
                    if may_answer { elapsed } else { limit }.as_secs(),
                    seen(&look.volumes)
                ));
            }
            return Search {
                volumes: look.volumes,
                warnings,
            };
        }
        wait(events.as_ref(), POLL_INTERVAL.min(left));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No wanted medium was found.
    Nothing,
    /// Either the boot medium or the medium with `parameters.txt` was found; the other is
    /// missing. A second medium may still bring the address of Ironic.
    Partial,
    /// The agent needs no other medium, so the wait can end.
    Complete,
}

fn state(volumes: &[Volume], wanted: &Wanted) -> State {
    let publisher = wanted.publisher();
    let boot_medium = if wanted.announced() {
        volumes
            .iter()
            .any(|volume| volume.is_boot_medium(publisher))
    } else {
        volumes::for_network_data(volumes, publisher).is_some()
    };
    let parameters = wanted.virtual_media && volumes.iter().any(Volume::holds_parameters);
    match (boot_medium, parameters) {
        (true, true) => State::Complete,
        (true, false) if wanted.service_known || !wanted.virtual_media => State::Complete,
        (false, false) => State::Nothing,
        _ => State::Partial,
    }
}

/// Describes the content of the drives, for the warning that the wanted media
/// are missing.
pub(super) fn seen(volumes: &[Volume]) -> String {
    if volumes.is_empty() {
        return "; no drive has a medium with a file system".to_owned();
    }
    let list: Vec<String> = volumes
        .iter()
        .map(|volume| format!("{} labelled {:?}", volume.node.display(), volume.label()))
        .collect();
    format!("; found {}", list.join(", "))
}

/// Waits for an event of a block device, at most `limit`.
pub(super) fn wait(events: Option<&UeventSocket>, limit: Duration) {
    let end = Instant::now() + limit;
    let Some(events) = events else {
        return std::thread::sleep(limit);
    };
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match events.recv(Some(left)) {
            Ok(Received::Event(event)) if event.subsystem() != "block" => {}
            Ok(_) => return,
            Err(_) => return std::thread::sleep(left),
        }
    }
}
