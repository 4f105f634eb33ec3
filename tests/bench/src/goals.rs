//! Defines the targets for writing an image, and checks whether the agent meets
//! them.

use super::image::Form::{Gz, Qcow2, Qcow2Zlib, Qcow2Zstd, Raw, Xz, XzBlocks, Zst};
use super::image::{Form, VIRTUAL_SIZE};
use super::image_results::{BREAKS, Measured, Results};
use super::writers::Writer::{self, CoreosInstaller, IronicAgent, Landfall};
use super::{Quantity, Row, Table};

/// A measured value and its target.
struct Goal {
    what: String,
    found: f64,
    target: f64,
    /// A second, ambitious target.
    moonshot: f64,
    unit: &'static str,
    /// Whether more is better.
    at_least: bool,
    /// The value if the processor time of the kernel's threads is included for both
    /// programs. `None` if the goal does not compare the processor times of two programs.
    with_kernel: Option<f64>,
}

impl Goal {
    fn row(self) -> Row {
        let Self {
            found,
            target,
            moonshot,
            unit,
            ..
        } = self;
        let reaches = |goal: f64| {
            if self.at_least {
                found >= goal
            } else {
                found <= goal
            }
        };
        let verdict = match (reaches(moonshot), reaches(target)) {
            (true, _) => "met, and the moonshot",
            (false, true) => "met",
            (false, false) => "**not met**",
        };
        let sign = if self.at_least { "≥" } else { "≤" };
        Row {
            name: self.what,
            cells: vec![
                format!("{found:.2} {unit}"),
                self.with_kernel
                    .map_or_else(String::new, |found| format!("{found:.2} {unit}")),
                format!("{sign} {target:.2} ({moonshot:.2})"),
                verdict.to_owned(),
            ],
            quantities: vec![Quantity::new("found", unit, vec![found])],
        }
    }
}

pub(super) fn table(results: &Results, runs: usize) -> Table {
    let goals = [
        processor_time(results),
        wall_time(results),
        memory(results),
        bytes(results),
    ];
    let columns = [
        "what",
        "found",
        "with the kernel's threads",
        "target (moonshot)",
        "",
    ];
    Table {
        title: format!("Writing an image: targets, by medians of {runs} runs in turns"),
        columns: columns.map(str::to_owned).into(),
        rows: goals.into_iter().flatten().map(Goal::row).collect(),
        notes: vec![
            "* **With the kernel's threads**: the time of the kernel's threads is added for both \
             programs. These threads write back what a program left in the page cache, and copy data \
             for the loop device.\n\
             * **The bound**: the CPU time of the busiest thread, or all CPU time divided by the number \
             of processors, whichever is larger."
                .to_owned(),
            "The server and the loop device also need processors, so this column and the wall times are \
             meaningful only if nothing else runs on the machine."
                .to_owned(),
        ],
    }
}

fn processor_time(results: &Results) -> Vec<Goal> {
    let less = [
        (Raw, IronicAgent, 2.5, 3.5),
        (Gz, CoreosInstaller, 2.5, 3.5),
        (Zst, CoreosInstaller, 3.0, 4.0),
        (Xz, CoreosInstaller, 4.0 / 3.0, 4.0 / 3.0),
        (Qcow2, IronicAgent, 2.5, 2.5),
        (Qcow2Zlib, IronicAgent, 3.0, 3.0),
        (Qcow2Zstd, IronicAgent, 2.5, 2.5),
    ];
    let mut goals = Vec::new();
    for (form, peer, target, moonshot) in less {
        let (Some(ours), Some(theirs)) = (results.of(Landfall, form), results.of(peer, form))
        else {
            continue;
        };
        goals.push(Goal {
            what: format!(
                "{}: CPU of the other program, divided by ours ({})",
                form.name(),
                peer.name(form)
            ),
            found: theirs.cpu() / ours.cpu(),
            target,
            moonshot,
            unit: "x",
            at_least: true,
            with_kernel: Some(theirs.cpu_with_kernel() / ours.cpu_with_kernel()),
        });
    }
    let gib = (VIRTUAL_SIZE >> 30) as f64;
    let seconds = [
        (Raw, 1.2, 1.0),
        (Gz, 1.1, 0.85),
        (Zst, 0.75, 0.6),
        (Qcow2, 0.5, 0.35),
        (Qcow2Zlib, 0.7, 0.5),
        (Qcow2Zstd, 0.55, 0.4),
    ];
    for (form, target, moonshot) in seconds {
        goals.extend(results.of(Landfall, form).map(|ours| Goal {
            what: format!("{}: CPU per GiB", form.name()),
            found: ours.cpu() / gib,
            target,
            moonshot,
            unit: "s",
            at_least: false,
            with_kernel: None,
        }));
    }
    goals
}

fn wall_time(results: &Results) -> Vec<Goal> {
    let at_most = |what: String, found: f64| Goal {
        what,
        found,
        target: 1.15,
        moonshot: 1.05,
        unit: "x",
        at_least: false,
        with_kernel: None,
    };
    let mut goals = Vec::new();
    if let (Some(ours), Some(digest)) = (results.of(Landfall, Raw), results.digest_alone) {
        let what = "raw: wall time, divided by that of the digest alone".to_owned();
        goals.push(at_most(what, ours.wall() / digest));
    }
    if let Some(ours) = results.of(Landfall, XzBlocks) {
        let what = "raw.xz, in blocks: wall time, divided by CPU time per processor".to_owned();
        goals.push(at_most(what, ours.wall() * results.processors / ours.cpu()));
    }
    for (form, ours) in of_ours(results) {
        let what = format!("{}: wall time, divided by the bound", form.name());
        goals.push(at_most(what, ours.wall() / ours.bound(results.processors)));
    }
    goals
}

fn memory(results: &Results) -> Vec<Goal> {
    let limited = of_ours(results).filter(|(form, _)| !matches!(form, Xz | XzBlocks));
    let goal = |(form, ours): (Form, &Measured)| {
        let (target, moonshot) = if form.is_qcow2() {
            (50.0, 32.0)
        } else {
            (40.0, 24.0)
        };
        Goal {
            what: format!("{}: peak memory", form.name()),
            found: ours.memory(),
            target,
            moonshot,
            unit: "MiB",
            at_least: false,
            with_kernel: None,
        }
    };
    limited.map(goal).collect()
}

fn bytes(results: &Results) -> Vec<Goal> {
    let written = of_ours(results).map(|(_, ours)| ours.written());
    vec![
        Goal {
            what: "largest of all: bytes written, divided by bytes of data".to_owned(),
            found: written.fold(0.0, f64::max) / results.data_bytes,
            target: 1.02,
            moonshot: 1.0,
            unit: "x",
            at_least: false,
            with_kernel: None,
        },
        Goal {
            what: format!("fetched again for a broken connection, of {BREAKS}"),
            found: results.again / f64::from(1 << 20),
            target: 1.0,
            moonshot: 0.0,
            unit: "MiB",
            at_least: false,
            with_kernel: None,
        },
    ]
}

/// The agent's results on the disk, for every form of the image.
fn of_ours(results: &Results) -> impl Iterator<Item = (Form, &Measured)> {
    let measured = |form| Some((form, results.of(Writer::Landfall, form)?));
    Form::ALL.into_iter().filter_map(measured)
}
