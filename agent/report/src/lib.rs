//! Writes the agent's log lines.
//!
//! Every module logs with `tracing`'s macros. The stage of a line is the name of the
//! crate, or in `agent`, `devices` and `sys` the name of the first module below it;
//! `STAGES` has the exceptions. This crate writes the lines: in the ramdisk to every
//! console of /proc/consoles and to the kernel log, in a service to the journal,
//! otherwise to stderr.

mod console;
mod event;
pub mod failure;
pub mod form;
pub mod kernel_log;
mod progress;
mod ring;
pub mod status;
mod status_screen;
pub mod wrap;

pub use console::{FirmwarePort, KeyDecoder};
pub use event::{ByteCount, Event};
pub use progress::{Progress, ProgressLine};
pub use ring::{LogLine, events_after, last_events, log_lines, newest_event};
pub use status_screen::{ScreenLine, Tone};

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use console::Consoles;
use landfall_boot_params::argument_value::ConsoleMode;
use landfall_boot_params::without_secrets;
use landfall_sys::boot_clock::seconds_since_boot;
use landfall_sys::service_notify::ServiceNotify;
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// The maximum length of a line in characters. Longer lines contain text from outside,
/// and are cut. The longest of the agent's own lines lists every disk, with about 150
/// characters each, if no root device matches.
const LINE_LIMIT: usize = 4000;

/// The destination of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Every console in /proc/consoles, the firmware's serial ports, and the kernel log.
    /// `form` says whether a key opens the network form, provided that the agent offers
    /// one.
    Consoles { mode: ConsoleMode, form: bool },
    /// stderr, for a person at a terminal or a log file.
    Stderr,
    /// stderr that is connected to systemd's journal. Each line begins with its
    /// level (sd-daemon(3)). The latest line is also the service's status.
    Journal,
    /// stderr, one JSON object per line, see [`Event::json`].
    JsonLines,
}

/// Starts logging for the rest of the process. After a second call, the lines still go to
/// the first output.
pub fn start(output: Output, debug: bool) -> Flush {
    let sinks = match output {
        Output::Consoles { mode, form } => Sinks::Ramdisk {
            consoles: Consoles::of_this_machine(mode, form, lines_for_consoles),
            // If /dev/kmsg cannot be opened, only the copy in the kernel log is missing.
            kmsg: OpenOptions::new()
                .write(true)
                .open("/dev/kmsg")
                .ok()
                .map(Mutex::new),
        },
        Output::Stderr => Sinks::Stderr { json: false },
        Output::JsonLines => Sinks::Stderr { json: true },
        // If the socket cannot be opened, only the service's status is missing.
        Output::Journal => Sinks::Journal(ServiceNotify::from_environment().ok().flatten()),
    };
    let sinks = Arc::new(sinks);
    let layer = Lines {
        sinks: Arc::clone(&sinks),
        most_verbose: if debug { Level::DEBUG } else { Level::INFO },
    };
    let subscriber = tracing_subscriber::registry().with(layer);
    // An error means that there already is a subscriber, which stays in use.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Flush(sinks)
}

/// Logs panics like any other failure before the process aborts, because nobody
/// sees stderr in the ramdisk.
pub fn log_panics(flush: &Flush) {
    let flush = flush.clone();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!("this is a bug of landfall, please report it: {panic}");
        flush.wait(Duration::from_secs(1));
    }));
}

/// Waits until slow consoles have printed the last lines, before the machine stops.
#[derive(Debug, Clone)]
pub struct Flush(Arc<Sinks>);

impl Flush {
    /// Waits until every console has printed all earlier lines, at most `bound` for
    /// each console.
    pub fn wait(&self, bound: Duration) {
        if let Sinks::Ramdisk { consoles, .. } = &*self.0 {
            consoles.wait_until_printed(bound);
        }
    }
}

/// The lines of this process so far, in the format for consoles.
fn lines_for_consoles() -> Vec<String> {
    events_after(0).iter().map(Event::for_consoles).collect()
}

#[derive(Debug)]
enum Sinks {
    Ramdisk {
        consoles: Arc<Consoles>,
        kmsg: Option<Mutex<File>>,
    },
    Stderr {
        json: bool,
    },
    Journal(Option<ServiceNotify>),
}

impl Sinks {
    fn put(&self, line: &Event) {
        match self {
            Self::Ramdisk { consoles, kmsg } => {
                consoles.print(line.level, &line.for_consoles());
                if let Some(kmsg) = kmsg {
                    // `<15>` is facility user, level debug. The kernel shows this level
                    // on consoles only with `debug` (or `loglevel=8`) on its command
                    // line, so normally no console shows the line twice.
                    let mut file = kmsg.lock().unwrap_or_else(PoisonError::into_inner);
                    for part in kmsg_parts(&line.graded()) {
                        let record = format!("<15>landfall {}: {part}\n", line.stage);
                        // If this fails, the line is still on the consoles.
                        let _ = file.write_all(record.as_bytes());
                    }
                }
            }
            Self::Stderr { json } => {
                let text = if *json {
                    line.json().to_string()
                } else {
                    line.for_terminals()
                };
                // A closed stderr must not stop the agent.
                let _ = writeln!(std::io::stderr(), "{text}");
            }
            Self::Journal(notify) => {
                // Ignore errors: a closed journal or a busy service manager must not stop
                // the agent.
                let _ = writeln!(std::io::stderr(), "{}", line.for_journal());
                if let Some(notify) = notify
                    && line.level <= Level::INFO
                {
                    let _ = notify.status(&line.line());
                }
            }
        }
    }
}

/// Splits a line for the kernel log: the kernel rejects a record of more than
/// 1024 bytes as a whole (`PRINTKRB_RECORD_MAX`).
fn kmsg_parts(text: &str) -> impl Iterator<Item = &str> {
    use kernel_log::PART;
    // The text is ASCII (see `printable`), so it can be split anywhere.
    (0..text.len().max(1))
        .step_by(PART)
        .map(move |start| &text[start..(start + PART).min(text.len())])
}

struct Lines {
    sinks: Arc<Sinks>,
    most_verbose: Level,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        // Ignores the events of libraries, because they are for the developers of the
        // library. Errors of libraries are returned to the agent, which reports them.
        let Some(stage) = stage(metadata.target()) else {
            return;
        };
        if *metadata.level() > self.most_verbose {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        // Remove secrets in this one place, so that no caller can forget it.
        let text = printable(&without_secrets(&fields.message));
        // Keep the event before it is printed, so that a console that is opened in
        // between prints it too.
        let event = ring::keep(Event {
            sequence: 0,
            time: seconds_since_boot(),
            stage: stage.to_owned(),
            level: *metadata.level(),
            text,
            progress: fields.done.map(|done| ByteCount {
                done,
                total: fields.total,
            }),
        });
        if event.level == Level::ERROR {
            let error = status::LastError::of(&event);
            status::update(|status| status.last_error = Some(error));
        }
        self.sinks.put(&event);
    }
}

/// Prefixes of module names, without `landfall_`, and their stages, where the stage is
/// not the name of the crate: several crates are one stage for the operator, or a crate
/// has several stages. The first match applies.
const STAGES: &[(&str, &str)] = &[
    ("agent::stages::iscsi_boot", "iscsi"),
    ("agent::stages", "agent"),
    ("parser_child", "agent"),
    ("download", "disk"),
    ("discovery::clock", "clock"),
    ("http_client::tls", "tls"),
    ("settings::media", "media"),
    ("nvme_boot", "san-boot"),
];

/// The stage of a line, from the module that wrote it: `landfall_network::dhcp` ->
/// `network`, `landfall_agent::rescue` -> `rescue`. `None` for a module of another
/// project.
fn stage(module: &str) -> Option<&str> {
    let module = module.strip_prefix("landfall_")?;
    let mut known = STAGES.iter();
    if let Some((_, stage)) = known.find(|(prefix, _)| module.starts_with(prefix)) {
        return Some(stage);
    }
    let mut parts = module.split("::");
    let first = parts.next()?;
    match first {
        "agent" | "devices" | "sys" => Some(parts.next().unwrap_or(first)),
        _ => Some(first),
    }
}

/// Replaces all characters except printable ASCII, because a server's text must not be
/// able to control an operator's terminal.
fn printable(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(LINE_LIMIT)
        .map(|c| match c {
            ' '..='~' => c,
            '\n' | '\t' => ' ',
            _ => '?',
        })
        .collect();
    if text.chars().count() > LINE_LIMIT {
        out.push_str(" ...");
    }
    out
}

/// The fields of a `tracing` event that this crate uses.
#[derive(Default)]
struct Fields {
    message: String,
    /// The fields of a [`ProgressLine`].
    done: Option<u64>,
    total: Option<u64>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            // Writing to a String cannot fail.
            let _ = write!(self.message, "{value:?}");
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "done" => self.done = Some(value),
            "total" => self.total = Some(value),
            _ => {}
        }
    }
}

/// A number of bytes in a readable unit.
pub fn mib(bytes: u64) -> String {
    if bytes < 1 << 20 {
        return format!("{bytes} bytes");
    }
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// `1 h 02 min`, `3 min 20 s` or `12 s`.
fn in_words(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_stage_that_wrote_it() {
        for (module, expected) in [
            ("landfall_agent", Some("agent")),
            ("landfall_agent::stages::home", Some("agent")),
            ("landfall_agent::rescue", Some("rescue")),
            ("landfall_network::dhcp", Some("network")),
            ("landfall_disk::image", Some("disk")),
            ("landfall_download::fetch", Some("disk")),
            ("landfall_discovery::clock::ntp", Some("clock")),
            ("landfall_init::modules", Some("init")),
            ("hyper::client", None),
        ] {
            assert_eq!(stage(module), expected, "{module}");
        }
    }

    #[test]
    fn remote_text_cannot_drive_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc\u{e9}"), "a?[2Jb c?");
        assert!(printable(&"x".repeat(9000)).len() < LINE_LIMIT + 10);
    }

    #[test]
    fn long_lines_reach_the_kernel_log_in_parts() {
        let text = "x".repeat(2000);
        let parts: Vec<&str> = kmsg_parts(&text).collect();
        assert_eq!(parts.concat(), text);
        assert!(parts.iter().all(|part| part.len() <= 900));
        assert_eq!(kmsg_parts("").collect::<Vec<_>>(), [""]);
    }
}
