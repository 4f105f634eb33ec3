//! The status in the text format of Prometheus
//! (https://prometheus.io/docs/instrumenting/exposition_formats/).

use std::fmt::{self, Display, Write as _};
use std::fs;

use landfall_report::status::{LastError, Nic, Progress, Status, Step};
use landfall_sys::memory_use;

/// What the agent's process uses.
pub(super) struct Process {
    pub(super) resident_bytes: u64,
    pub(super) open_files: u64,
}

impl Process {
    /// The values of this process. Zero means that a value is unknown, because a running
    /// process always uses some memory and some files.
    pub(super) fn this() -> Self {
        let memory = memory_use::resident_and_peak_kib();
        let files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self {
            resident_bytes: memory.map_or(0, |(resident, _)| resident * 1024),
            open_files: files as u64,
        }
    }
}

/// All metrics. `now` is in seconds since boot.
pub(super) fn text(status: &Status, process: &Process, now: f64) -> String {
    let mut out = String::new();
    for metric in table(status, process, now) {
        // Writing to a String cannot fail.
        let _ = write!(out, "{metric}");
    }
    out
}

fn table<'a>(status: &'a Status, process: &Process, now: f64) -> Vec<Metric<'a>> {
    let progress = status.progress.as_ref();
    let nics = &status.network.nics;
    vec![
        metric(
            "landfall_info",
            "The agent and the machine that it runs on.",
            [info(status)],
        ),
        metric(
            "landfall_uptime_seconds",
            "Time since the boot.",
            [Sample::plain(format_args!("{now:.3}"))],
        ),
        metric(
            "landfall_service_answers",
            "1 if the provisioning service has answered.",
            [Sample::plain(u8::from(status.service_answers))],
        ),
        metric(
            "landfall_done",
            "1 if the agent has finished its work on this machine.",
            [Sample::plain(u8::from(status.done.is_some()))],
        ),
        metric(
            "landfall_step_seconds",
            "The current step, and how long it has taken.",
            status.step.as_ref().map(|step| step_seconds(step, now)),
        ),
        metric(
            "landfall_progress_bytes",
            "Bytes of the current work that are done.",
            progress.map(|progress| Sample::with([("what", &progress.what)], progress.done)),
        ),
        metric(
            "landfall_progress_total_bytes",
            "All bytes of the current work.",
            progress.and_then(progress_total),
        ),
        metric(
            "landfall_last_error_seconds",
            "When the last error occurred, since the boot.",
            status.last_error.as_ref().map(last_error_seconds),
        ),
        metric(
            "landfall_nic_carrier",
            "1 if the NIC has a carrier.",
            nics.iter().map(nic_carrier),
        ),
        metric(
            "landfall_nic_speed_bits_per_second",
            "The speed of the NIC's link.",
            nics.iter().filter_map(nic_speed),
        ),
        metric(
            "process_resident_memory_bytes",
            "Resident memory of the agent.",
            [Sample::plain(process.resident_bytes)],
        ),
        metric(
            "process_open_fds",
            "Open files of the agent.",
            [Sample::plain(process.open_files)],
        ),
    ]
}

fn info(status: &Status) -> Sample<'_> {
    let host = &status.host;
    let labels = [
        ("version", status.build.as_str()),
        ("host", &host.name),
        ("product", &host.product),
        ("serial", &host.serial),
        ("boot_mode", &host.boot_mode),
        ("node", status.node.as_deref().unwrap_or_default()),
    ];
    Sample::with(labels, 1)
}

fn step_seconds(step: &Step, now: f64) -> Sample<'_> {
    let taken = (now - step.since).max(0.0);
    Sample::with([("step", &step.name)], format_args!("{taken:.3}"))
}

fn progress_total(progress: &Progress) -> Option<Sample<'_>> {
    let total = progress.total?;
    Some(Sample::with([("what", &progress.what)], total))
}

fn last_error_seconds(error: &LastError) -> Sample<'_> {
    Sample::with([("stage", &error.stage)], format_args!("{:.3}", error.time))
}

fn nic_carrier(nic: &Nic) -> Sample<'_> {
    Sample::with(labels_of(nic), u8::from(nic.carrier))
}

fn nic_speed(nic: &Nic) -> Option<Sample<'_>> {
    let bits = u64::from(nic.speed?) * 1_000_000;
    Some(Sample::with(labels_of(nic), bits))
}

fn labels_of(nic: &Nic) -> [(&'static str, &str); 2] {
    [("nic", &nic.name), ("mac", &nic.mac)]
}

/// A metric with all its values. Without a value it is left out.
struct Metric<'a> {
    name: &'static str,
    help: &'static str,
    samples: Vec<Sample<'a>>,
}

fn metric<'a>(
    name: &'static str,
    help: &'static str,
    samples: impl IntoIterator<Item = Sample<'a>>,
) -> Metric<'a> {
    Metric {
        name,
        help,
        samples: samples.into_iter().collect(),
    }
}

impl Display for Metric<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            help,
            samples,
        } = self;
        if samples.is_empty() {
            return Ok(());
        }
        writeln!(f, "# HELP {name} {help}\n# TYPE {name} gauge")?;
        for sample in samples {
            writeln!(f, "{name}{sample}")?;
        }
        Ok(())
    }
}

/// One value of a metric, with the labels that distinguish it from the others.
struct Sample<'a> {
    labels: Vec<(&'static str, &'a str)>,
    value: String,
}

impl<'a> Sample<'a> {
    fn plain(value: impl Display) -> Self {
        Self::with([], value)
    }

    fn with<const N: usize>(labels: [(&'static str, &'a str); N], value: impl Display) -> Self {
        Self {
            labels: labels.to_vec(),
            value: value.to_string(),
        }
    }
}

impl Display for Sample<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.labels.is_empty() {
            let labels: Vec<_> = { self.labels.iter() }
                .map(|(label, text)| format!("{label}=\"{}\"", Label(text)))
                .collect();
            write!(f, "{{{}}}", labels.join(","))?;
        }
        write!(f, " {}", self.value)
    }
}

/// Writes the value of a label, with escapes. Line breaks need no escape, because the
/// status has only printable characters.
struct Label<'a>(&'a str);

impl Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            if matches!(char, '"' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(char)?;
        }
        Ok(())
    }
}
