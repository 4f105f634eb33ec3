//! The status in the text format of Prometheus
//! (https://prometheus.io/docs/instrumenting/exposition_formats/).

use std::fmt::{self, Display, Write as _};
use std::fs;

use landfall_report::status::Status;
use landfall_sys::memory_use;

/// What the agent's process uses.
pub(super) struct Process {
    pub(super) resident_bytes: u64,
    pub(super) open_files: u64,
}

impl Process {
    /// Zero stands for unknown, as it cannot occur.
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
    let mut out = Metrics(String::new());
    let host = &status.host;
    out.head(
        "landfall_info",
        "The agent and the machine that it runs on.",
    );
    out.value(
        "landfall_info",
        &[
            ("version", &status.build),
            ("host", &host.name),
            ("product", &host.product),
            ("serial", &host.serial),
            ("boot_mode", &host.boot_mode),
            ("node", status.node.as_deref().unwrap_or_default()),
        ],
        1,
    );
    out.gauge(
        "landfall_uptime_seconds",
        "Time since the boot.",
        format_args!("{now:.3}"),
    );
    out.gauge(
        "landfall_service_answers",
        "1 if the provisioning service has answered.",
        u8::from(status.service_answers),
    );
    out.gauge(
        "landfall_done",
        "1 if the machine is finished and is about to restart.",
        u8::from(status.done.is_some()),
    );
    if let Some(step) = &status.step {
        out.head(
            "landfall_step_seconds",
            "The current step, and how long it has taken.",
        );
        let taken = (now - step.since).max(0.0);
        out.value(
            "landfall_step_seconds",
            &[("step", &step.name)],
            format_args!("{taken:.3}"),
        );
    }
    if let Some(progress) = &status.progress {
        let labels = [("what", progress.what.as_str())];
        out.head(
            "landfall_progress_bytes",
            "Bytes of the current work that are done.",
        );
        out.value("landfall_progress_bytes", &labels, progress.done);
        if let Some(total) = progress.total {
            out.head(
                "landfall_progress_total_bytes",
                "All bytes of the current work.",
            );
            out.value("landfall_progress_total_bytes", &labels, total);
        }
    }
    if let Some(error) = &status.last_error {
        out.head(
            "landfall_last_error_seconds",
            "When the last error occurred, since the boot.",
        );
        out.value(
            "landfall_last_error_seconds",
            &[("stage", &error.stage)],
            format_args!("{:.3}", error.time),
        );
    }
    let nics = &status.network.nics;
    if !nics.is_empty() {
        out.head("landfall_nic_carrier", "1 if the NIC has a carrier.");
        for nic in nics {
            let labels = [("nic", nic.name.as_str()), ("mac", &nic.mac)];
            out.value("landfall_nic_carrier", &labels, u8::from(nic.carrier));
        }
    }
    if nics.iter().any(|nic| nic.speed.is_some()) {
        out.head(
            "landfall_nic_speed_bits_per_second",
            "The speed of the NIC's link.",
        );
        for nic in nics {
            if let Some(speed) = nic.speed {
                let labels = [("nic", nic.name.as_str()), ("mac", &nic.mac)];
                out.value(
                    "landfall_nic_speed_bits_per_second",
                    &labels,
                    u64::from(speed) * 1_000_000,
                );
            }
        }
    }
    out.gauge(
        "process_resident_memory_bytes",
        "Resident memory of the agent.",
        process.resident_bytes,
    );
    out.gauge(
        "process_open_fds",
        "Open files of the agent.",
        process.open_files,
    );
    out.0
}

struct Metrics(String);

impl Metrics {
    fn head(&mut self, name: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge\n");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help);
        self.value(name, &[], value);
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        if !labels.is_empty() {
            let labels: Vec<_> = { labels.iter() }
                .map(|(label, text)| format!("{label}=\"{}\"", Label(text)))
                .collect();
            let _ = write!(self.0, "{{{}}}", labels.join(","));
        }
        let _ = writeln!(self.0, " {value}");
    }
}

/// The value of a label. Line breaks cannot occur, because the status has only
/// printable characters.
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
