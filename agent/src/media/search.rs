//! Waiting for media: a BMC's drive may show up long after the kernel has started.

use std::time::{Duration, Instant};

use super::volumes::{self, Volume};
use super::{Places, Wanted};
use crate::sys::uevent::{Received, UeventSocket};

/// How long a medium is waited for that the command line speaks of; what the
/// ramdisk of Ironic's agent takes.
const LIMIT: Duration = Duration::from_secs(30);
/// How long one is waited for that nobody speaks of: an image of our own, with
/// a config drive beside it.
const UNANNOUNCED_LIMIT: Duration = Duration::from_secs(3);
/// How long a second medium is waited for once one is there.
const SECOND_MEDIUM: Duration = Duration::from_secs(5);
/// Media that are put into a drive announce themselves only where the kernel
/// polls the drive, which it does not by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long nothing is said about the wait.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// What came out.
pub(super) struct Search {
    pub(super) volumes: Vec<Volume>,
    pub(super) warnings: Vec<String>,
}

/// Looks into the drives until what is wanted is there, at most [`LIMIT`].
pub(super) fn for_volumes(wanted: &Wanted, places: &Places, settled: impl Fn() -> bool) -> Search {
    let announced = wanted.announced();
    let limit = if announced { LIMIT } else { UNANNOUNCED_LIMIT };
    // Opened before the first look, so that nothing is missed.
    let events = UeventSocket::open().ok();
    let start = Instant::now();
    let mut first_seen = None;
    let mut told = false;
    loop {
        // Asked first: what settles behind it is seen by the look.
        let all_there = settled();
        let volumes = volumes::in_drives(&places.sys, &places.dev);
        let now = Instant::now();
        let state = state(&volumes, wanted);
        if state != State::Nothing {
            first_seen.get_or_insert(now);
        }
        let over = match state {
            State::Complete => true,
            State::Partial => first_seen.is_some_and(|seen| now - seen > SECOND_MEDIUM),
            State::Nothing => !announced && all_there,
        };
        if over {
            let warnings = Vec::new();
            return Search { volumes, warnings };
        }
        let elapsed = now - start;
        if announced && !told && elapsed > TELL_AFTER {
            told = true;
            tracing::info!("waiting for virtual media, at most {} s", limit.as_secs());
        }
        if elapsed >= limit {
            let mut warnings = Vec::new();
            if announced && state == State::Nothing {
                warnings.push(format!(
                    "no virtual media within {} s, though the kernel command line speaks of them{}",
                    limit.as_secs(),
                    seen(&volumes)
                ));
            }
            return Search { volumes, warnings };
        }
        wait(events.as_ref(), LOOK_AGAIN.min(limit - elapsed));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No medium of ours.
    Nothing,
    /// The one or the other; Ironic's address may still be on a second one.
    Partial,
    /// Nothing more is needed.
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

/// What was in the drives instead.
pub(super) fn seen(volumes: &[Volume]) -> String {
    if volumes.is_empty() {
        return "; no drive has a medium with a file system".to_owned();
    }
    let list: Vec<String> = volumes
        .iter()
        .map(|volume| format!("{} labelled {:?}", volume.node.display(), volume.label))
        .collect();
    format!("; found {}", list.join(", "))
}

/// Until something happens to a block device, at most `limit`.
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
