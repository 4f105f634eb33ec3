//! Measures the time from the kernel's first line to the first lookup, and compares
//! it with the time that the same kernel takes to start a minimal /init.

use std::time::Duration;

use anyhow::{Context, Result};
use landfall_tests::artifacts;
use landfall_tests::installation::BOOT;
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::{self, Lab};
use landfall_tests::site::Plan;
use landfall_tests::timeline::agent_clock;
use landfall_tests::vm::{Boot, Guest};

use super::bare_init;
use super::{Row, Table};

/// A part of the kernel's first line.
const KERNEL: &str = "Linux version";

/// Two, because servers have more than one.
const PROCESSORS: u8 = 2;

/// Steps of the agent, each with a part of the line that it prints.
const STEPS: [(&str, &str); 7] = [
    ("/init runs", "init: landfall"),
    ("the plan is made", "network: source: "),
    ("there is a carrier", " carrier up"),
    ("there is an address", " from kernel argument ip="),
    (
        "the service has answered",
        "discovery: provisioning service answers",
    ),
    ("the inventory is sent", "ironic: posting the inventory"),
    ("the lookup is sent", "ironic: looking up"),
];

/// The times of one boot of the agent's ramdisk.
struct Run {
    /// From the kernel's first line to init's first line, by the host's clock.
    init: Duration,
    /// From the kernel's first line to the conductor's answer to the lookup, by the
    /// host's clock.
    lookup: Duration,
    /// The guest's own clock at each of [`STEPS`].
    steps: Vec<Duration>,
}

/// Boots `runs` times, in turns with the bare kernel.
///
/// # Errors
/// If a guest does not reach its lookup.
pub fn table(runs: usize) -> Result<Table> {
    let mut bare = Vec::new();
    let mut ours = Vec::new();
    for number in 1..=runs {
        bare.push(lab::run(&format!("bench-bare-{number}"), bare_run)?);
        ours.push(lab::run(&format!("bench-boot-{number}"), our_run)?);
    }
    let column = |value: fn(&Run) -> Duration| ours.iter().map(value).collect::<Vec<_>>();
    let mut rows = vec![
        Row::seconds("bare kernel to its /init", &bare),
        Row::seconds("kernel to our /init", &column(|run| run.init)),
        Row::seconds("kernel to the first lookup", &column(|run| run.lookup)),
        Row::seconds(
            "of it from /init to the lookup",
            &column(|run| run.lookup - run.init),
        ),
    ];
    for (step, (name, ..)) in STEPS.iter().enumerate().skip(1) {
        let took = |run: &Run| run.steps[step].saturating_sub(run.steps[step - 1]);
        let values: Vec<_> = ours.iter().map(took).collect();
        let name = format!("until {name}");
        rows.push(Row::seconds(&name, &values));
    }
    let size = |path: std::path::PathBuf| Ok::<_, anyhow::Error>(path.metadata()?.len());
    Ok(Table {
        title: format!("From the kernel's start to the first lookup, {runs} boots each in turns"),
        columns: Row::SPREAD.map(str::to_owned).into(),
        rows,
        notes: vec![format!(
            "Direct boot by QEMU, static address; host's clock from the line 'Linux version', guest's clock for \
             the steps. The ramdisk has {:.1} MB, the bare one {} bytes.",
            size(artifacts::ramdisk()?)? as f64 / 1e6,
            bare_init::ramdisk().len()
        )],
    })
}

async fn bare_run(lab: &Lab) -> Result<Duration> {
    let mut site = Plan::default().site(lab).await?;
    site.machine.processors = PROCESSORS;
    let ramdisk = lab.path("bare.img");
    std::fs::write(&ramdisk, bare_init::ramdisk())?;
    site.machine.boot = Boot::Direct {
        kernel: artifacts::kernel()?,
        ramdisk,
        // /init ends in a kernel panic, and `panic=-1` makes the panic end the machine.
        arguments: format!("{} panic=-1", Plan::default().kernel_arguments()),
    };
    let guest = site.power_on(lab).await?;
    let kernel = guest.console(KERNEL, BOOT).await?.at;
    let init = guest.console(bare_init::LINE, BOOT).await?.at;
    guest.cut_power().await?;
    Ok(init.saturating_sub(kernel))
}

async fn our_run(lab: &Lab) -> Result<Run> {
    let mut site = Plan::default().site(lab).await?;
    site.machine.processors = PROCESSORS;
    site.script.hold = true;
    let _services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    let lookup = lookup(lab).await?;
    let kernel = guest.console(KERNEL, BOOT).await?.at;
    let init = guest.console("init: landfall", BOOT).await?.at;
    let steps = steps(&guest).await?;
    guest.cut_power().await?;
    Ok(Run {
        init: init.saturating_sub(kernel),
        lookup: lookup.saturating_sub(kernel),
        steps,
    })
}

async fn lookup(lab: &Lab) -> Result<Duration> {
    let is_lookup =
        |event: &Event| event.source == Source::Conductor && event.text.starts_with("lookup 200");
    let start = lab.journal.start();
    let event = lab.journal.wait_for("the lookup", start, BOOT, is_lookup);
    Ok(event.await?.at)
}

/// The guest's clock at each of [`STEPS`].
async fn steps(guest: &Guest) -> Result<Vec<Duration>> {
    let mut clocks = Vec::new();
    for (name, text) in STEPS {
        let line = guest.console(text, BOOT).await?.text;
        clocks.push(agent_clock(&line).with_context(|| format!("{name}: no time in '{line}'"))?);
    }
    Ok(clocks)
}
