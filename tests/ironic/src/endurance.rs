//! `make endurance`: many agents under one real Ironic, with all the faults of a bad
//! day.
//!
//! Each agent is the real program, in a network namespace and a mount namespace of
//! its own, with a loop device as its only disk ([`private_machine`]). Nothing in the
//! agent knows of this test. The harness has the role of the firmware and of init:
//! it starts the agent when Ironic waits for it, and takes the exit code as the end
//! of the boot ([`machine`]).

pub mod cache;
pub mod cast;
pub mod checks;
pub mod clock;
pub mod compressed_time;
pub mod conductor;
pub mod day;
pub mod deployments;
pub mod disk;
pub mod images;
pub mod machine;
pub mod measurements;
pub mod open_files;
pub mod poor_link;
mod private_machine;
pub mod report;
pub mod room;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use landfall_tests::image_server::ImageServer;
use landfall_tests::lab::Lab;
use tokio::signal::unix::{SignalKind, signal};

use crate::configuration::Configuration;
use cache::Cache;
use cast::{cast, untroubled};
use conductor::Conductor;
use deployments::{deploy_all, say};
use images::Images;
use report::Figures;
use room::Room;

/// The time limit for the deployments: a part for Ironic and its restarts, and a part
/// for each agent. On two cores the deployment of an agent takes 5 s.
fn limit(agents: u16) -> Duration {
    Duration::from_secs(900 + 20 * u64::from(agents))
}

/// In seconds. Each agent sends about three heartbeats in this time, so all agents
/// together send at most about six a second. One API process answers about twenty
/// requests in a second.
fn heartbeat_timeout(agents: u16) -> u32 {
    (u32::from(agents) / 2).clamp(30, 300)
}

/// What a run does.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub agents: u16,
    /// The length of the compressed day that follows the deployments, if there is one:
    /// see [`day`] and [`compressed_time::DAY`].
    pub day: Option<Duration>,
    /// No agent has a [`cast::Trouble`], and all fetch one file through a [`Cache`].
    pub cached: bool,
    /// The agent's program.
    pub agent: PathBuf,
}

/// Runs the deployments and, if wanted, the day. Returns the figures and the faults.
///
/// # Errors
/// If the run cannot be done or does not end, or on SIGINT or SIGTERM.
pub async fn endure(lab: &Lab, wanted: &Wanted) -> Result<(Figures, Vec<String>)> {
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    // When the future of `run` is dropped, all its processes end.
    tokio::select! {
        done = run(lab, wanted) => done,
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

async fn run(lab: &Lab, wanted: &Wanted) -> Result<(Figures, Vec<String>)> {
    let cast = match wanted.cached {
        true => untroubled(wanted.agents),
        false => cast(wanted.agents),
    };
    let _cache = match wanted.cached {
        true => Some(Cache::start().await?),
        false => None,
    };
    let images = Images::make(wanted.cached);
    let room = Room::make(lab, &cast, &wanted.agent).await?;
    say(&format!("{} machines made", cast.len()));
    let root = Configuration::default().http_root(lab);
    let server = ImageServer::start_over(lab, images.files(&cast), Some(root)).await?;
    let mut conductor = Conductor::start(lab, heartbeat_timeout(wanted.agents)).await?;
    say("Ironic is up");
    let ended = deploy_all(
        lab,
        &room,
        &cast,
        &images,
        &mut conductor,
        limit(wanted.agents),
    )
    .await?;
    let mut faults: Vec<String> = ended.iter().filter_map(report::fault).collect();
    faults.extend(checks::disks(&room, &ended, &images)?);
    if wanted.cached {
        faults.extend(checks::downloads(&server.requests(images::SHARED)));
    }
    let mut figures = Figures {
        lasted: ended.iter().map(|one| one.after).max().unwrap_or_default(),
        frames: (&*room.frames).into(),
        conductor_restarts: conductor.restarts(),
        conductor_cpu: conductor.cpu_seconds(),
        day: None,
        ended,
    };
    if let Some(lasts) = wanted.day {
        let day = day::spend(lab, &room, &figures.ended, &images, &mut conductor, lasts).await?;
        faults.extend(day.faults());
        figures.day = Some(day);
    }
    Ok((figures, faults))
}
