//! Writes the agent's log lines.
//!
//! Every module logs with `tracing`'s macros. The stage of a line is the first
//! module below the crate. This module writes the lines: in the ramdisk to every
//! console of /proc/consoles and to the kernel log, in a service to the journal,
//! elsewhere to stderr.

mod console;
pub mod failure;
pub mod kernel_log;
mod progress;
mod ring;

pub use progress::Progress;
pub use ring::{Said, lines_said};

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use console::Consoles;
use landfall_boot_params::without_secrets;
use landfall_sys::boot_clock::seconds_since_boot;
use landfall_sys::service_notify::ServiceNotify;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// The maximum length of a line in characters. Longer lines come from outside and
/// are cut. If no root device matches, the line lists every disk with about 150
/// characters each.
const LINE_LIMIT: usize = 4000;

/// The destination of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Every console in /proc/consoles, and the kernel log.
    Consoles,
    /// stderr, for a person at a terminal or a log file.
    Stderr,
    /// stderr that is connected to systemd's journal. Each line begins with its
    /// level (sd-daemon(3)). The latest line is also the service's status.
    Journal,
    /// stderr, one JSON object per line:
    /// `{"v":1,"time":..,"stage":..,"level":..,"text":..}`.
    JsonLines,
}

/// Starts logging for the rest of the process. A second call has no effect.
pub fn start(output: Output, debug: bool) -> Flush {
    let sinks = match output {
        Output::Consoles => Sinks::Ramdisk {
            consoles: Consoles::of_this_machine(said_on_consoles),
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

/// One log line. `time` is in seconds since the boot.
struct Line<'a> {
    time: f64,
    stage: &'a str,
    level: Level,
    text: String,
}

impl Line<'_> {
    /// The line for a console: `[   12.345] disk: warning: ...`.
    fn for_consoles(&self) -> String {
        on_a_console(self.time, &self.for_status())
    }

    /// The line for a terminal: `disk: warning: ...`. Lines of the sub-command
    /// itself have no stage. There is no time, because the time since boot means
    /// nothing at a terminal.
    fn for_terminals(&self) -> String {
        match self.stage {
            "tools" => self.graded(),
            stage => format!("{stage}: {}", self.graded()),
        }
    }

    /// The line for the journal: `<4>disk: warning: ...`.
    fn for_journal(&self) -> String {
        let level = match self.level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        format!("<{level}>{}", self.for_status())
    }

    /// The line for the service's status: `disk: warning: ...`.
    fn for_status(&self) -> String {
        format!("{}: {}", self.stage, self.graded())
    }

    fn graded(&self) -> String {
        let grade = match self.level {
            Level::ERROR => "FAILED ",
            Level::WARN => "warning: ",
            _ => "",
        };
        format!("{grade}{}", self.text)
    }

    fn for_programs(&self) -> String {
        serde_json::json!({
            "v": 1,
            "time": (self.time * 1000.0).round() / 1000.0,
            "stage": self.stage,
            "level": self.level.as_str().to_ascii_lowercase(),
            "text": self.text,
        })
        .to_string()
    }
}

fn on_a_console(time: f64, text: &str) -> String {
    format!("[{time:9.3}] {text}")
}

/// The lines of this process so far, in the format for consoles.
fn said_on_consoles() -> Vec<String> {
    let said = lines_said().into_iter();
    said.map(|line| on_a_console(line.time, &line.text))
        .collect()
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
    fn put(&self, line: &Line<'_>) {
        match self {
            Self::Ramdisk { consoles, kmsg } => {
                consoles.print(&line.for_consoles());
                if let Some(kmsg) = kmsg {
                    // The prefix means facility user, level debug. This is below every console log
                    // level but "debug", so that no console shows the line twice.
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
                    line.for_programs()
                } else {
                    line.for_terminals()
                };
                // A closed stderr must not stop the agent.
                let _ = writeln!(std::io::stderr(), "{text}");
            }
            Self::Journal(notify) => {
                // Neither must a closed journal or a busy service manager.
                let _ = writeln!(std::io::stderr(), "{}", line.for_journal());
                if let Some(notify) = notify
                    && line.level <= Level::INFO
                {
                    let _ = notify.status(&line.for_status());
                }
            }
        }
    }
}

/// Splits a line for the kernel log: the kernel rejects a record of more than
/// 1024 bytes as a whole (`PRINTKRB_RECORD_MAX`).
fn kmsg_parts(text: &str) -> impl Iterator<Item = &str> {
    const PART: usize = 900;
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
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        // Ignores the events of libraries, which are for their own developers.
        // Errors of libraries are returned to the agent, which reports them.
        let Some(stage) = stage(metadata.target()) else {
            return;
        };
        if *metadata.level() > self.most_verbose {
            return;
        }
        let mut text = Message(String::new());
        event.record(&mut text);
        let line = Line {
            time: seconds_since_boot(),
            stage,
            level: *metadata.level(),
            // Remove secrets in this one place, so that no caller can forget it.
            text: printable(&without_secrets(&text.0)),
        };
        // Keep the line before it is printed, so that a console that appears now
        // gets it too.
        ring::keep(line.time, line.for_status());
        self.sinks.put(&line);
    }
}

/// Modules whose lines begin with another word than the crate: several crates
/// are one stage for the operator, or a crate has several stages. The first
/// match applies.
const STAGES: &[(&str, &str)] = &[
    ("agent::stages", "agent"),
    ("download", "disk"),
    ("discovery::clock", "clock"),
    ("http_client::tls", "tls"),
    ("settings::media", "media"),
];

/// The stage that a line names, from the module that wrote it:
/// `landfall_network::dhcp` -> `network`, `landfall_agent::rescue` -> `rescue`.
/// `None` for a module of another project.
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

/// Replaces everything but printable ASCII: a server's text must not be able to
/// control an operator's terminal.
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

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            // Writing to a String cannot fail.
            let _ = write!(self.0, "{value:?}");
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
    fn lines_say_how_grave_they_are() {
        let line = |level| {
            Line {
                time: 1.5,
                stage: "disk",
                level,
                text: "x".into(),
            }
            .for_consoles()
        };
        assert_eq!(line(Level::INFO), "[    1.500] disk: x");
        assert_eq!(line(Level::WARN), "[    1.500] disk: warning: x");
        assert_eq!(line(Level::ERROR), "[    1.500] disk: FAILED x");
    }

    #[test]
    fn the_journal_gets_the_level_in_front() {
        for (level, expected) in [
            (Level::ERROR, "<3>disk: FAILED x"),
            (Level::WARN, "<4>disk: warning: x"),
            (Level::INFO, "<6>disk: x"),
            (Level::DEBUG, "<7>disk: x"),
        ] {
            let line = Line {
                time: 1.5,
                stage: "disk",
                level,
                text: "x".into(),
            };
            assert_eq!(line.for_journal(), expected);
        }
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
