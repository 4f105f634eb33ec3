//! Measures the time from the kernel's first line to the first lookup for each module
//! set, and compares it with the time that the same kernel takes to start a minimal
//! /init.

use std::path::{Path, PathBuf};
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
use super::builder::Target;
use super::{Row, Table, machine};

/// A part of the kernel's first line.
const KERNEL: &str = "Linux version";

/// The number of processors of the guest: two, because servers have more than one.
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

/// A module set with its kernel and ramdisk, and the times of all its runs.
struct System {
    /// The module set of the ramdisk.
    set: &'static str,
    kernel: PathBuf,
    ramdisk: PathBuf,
    /// The time from the kernel's first line to the exit of the minimal /init, for each
    /// run.
    bare: Vec<Duration>,
    ours: Vec<Run>,
}

impl System {
    fn new(set: &'static str, kernel: PathBuf, ramdisk: PathBuf) -> Self {
        Self {
            set,
            kernel,
            ramdisk,
            bare: Vec::new(),
            ours: Vec::new(),
        }
    }

    /// Boots the kernel once with the minimal /init and once with the agent's ramdisk.
    fn run(&mut self, number: usize) -> Result<()> {
        let (set, kernel, ramdisk) = (self.set, &self.kernel, &self.ramdisk);
        let name = format!("bench-bare-{set}-{number}");
        let bare = lab::run(&name, async |lab: &Lab| bare_run(lab, kernel).await)?;
        let name = format!("bench-boot-{set}-{number}");
        let ours = lab::run(&name, async |lab: &Lab| our_run(lab, kernel, ramdisk).await)?;
        self.bare.push(bare);
        self.ours.push(ours);
        Ok(())
    }

    fn rows(&self) -> Vec<Row> {
        let column = |value: fn(&Run) -> Duration| self.ours.iter().map(value).collect::<Vec<_>>();
        let mut rows = vec![
            Row::seconds("bare kernel to its /init", &self.bare),
            Row::seconds("kernel to our /init", &column(|run| run.init)),
            Row::seconds("kernel to the first lookup", &column(|run| run.lookup)),
            Row::seconds(
                "of it from /init to the lookup",
                &column(|run| run.lookup - run.init),
            ),
        ];
        for (step, (name, ..)) in STEPS.iter().enumerate().skip(1) {
            let took = |run: &Run| run.steps[step].saturating_sub(run.steps[step - 1]);
            let values: Vec<_> = self.ours.iter().map(took).collect();
            let name = format!("until {name}");
            rows.push(Row::seconds(&name, &values));
        }
        for quantity in rows.iter_mut().flat_map(|row| &mut row.quantities) {
            quantity.name = self.set;
        }
        rows
    }

    /// The size of the ramdisk in MB.
    fn megabytes(&self) -> Result<f64> {
        Ok(self.ramdisk.metadata()?.len() as f64 / 1e6)
    }
}

/// Boots each set `runs` times, in turns with the minimal /init.
///
/// # Errors
/// If the ramdisk cannot be built, or a guest does not reach its lookup.
pub fn table(runs: usize) -> Result<Table> {
    let work = tempfile::tempdir().context("a work folder")?;
    let server = work.path().join("server.img");
    Target::server()?.ramdisk(None, &server)?;
    let mut vm = System::new("vm", artifacts::kernel()?, artifacts::ramdisk()?);
    let mut server = System::new("server", artifacts::generic_kernel()?, server);
    for number in 1..=runs {
        vm.run(number)?;
        server.run(number)?;
    }
    let rows = vm.rows().into_iter().zip(server.rows());
    let rows = rows.map(|(mut row, other)| {
        row.cells.extend(other.cells);
        row.quantities.extend(other.quantities);
        row
    });
    let columns = [
        "seconds",
        "vm: median",
        "least",
        "most",
        "server: median",
        "least",
        "most",
    ];
    Ok(Table {
        title: format!("From the kernel's start to the first lookup, {runs} boots each in turns"),
        columns: columns.map(str::to_owned).into(),
        rows: rows.collect(),
        notes: vec![
            format!(
                "Direct boot by QEMU, static address; host's clock from the line 'Linux version', guest's clock for \
                 the steps. The set vm has the cloud kernel and a ramdisk of {:.1} MB, the set server the generic \
                 kernel and {:.1} MB; the bare ramdisk has {} bytes.",
                vm.megabytes()?,
                server.megabytes()?,
                bare_init::ramdisk().len()
            ),
            machine()?,
        ],
    })
}

async fn bare_run(lab: &Lab, kernel: &Path) -> Result<Duration> {
    let mut site = Plan::default().site(lab).await?;
    site.machine.processors = PROCESSORS;
    let ramdisk = lab.path("bare.img");
    std::fs::write(&ramdisk, bare_init::ramdisk())?;
    site.machine.boot = Boot::Direct {
        kernel: kernel.to_owned(),
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

async fn our_run(lab: &Lab, kernel: &Path, ramdisk: &Path) -> Result<Run> {
    let mut site = Plan::default().site(lab).await?;
    site.machine.processors = PROCESSORS;
    site.machine.boot = Boot::Direct {
        kernel: kernel.to_owned(),
        ramdisk: ramdisk.to_owned(),
        arguments: Plan::default().kernel_arguments(),
    };
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
