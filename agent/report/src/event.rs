//! One event is one log line. All log output is made from events: the consoles, the
//! journal, `--progress-json`, the status page, syslog. docs/events.md and
//! docs/events.schema.json describe the JSON.

use serde_json::{Value, json};
use tracing::Level;

/// The version of the JSON form. It changes when a field changes its meaning; new
/// fields do not change it.
pub const VERSION: u32 = 1;

/// Something that the agent reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The number of the event in this process, from 1. A gap means that events were
    /// dropped.
    pub sequence: u64,
    /// The time in seconds since boot.
    pub time: f64,
    /// The part of the agent that reports: `disk`.
    pub stage: String,
    pub level: Level,
    /// Printable ASCII without secrets.
    pub text: String,
    /// The progress of long work; only lines of [`crate::Progress`] have it.
    pub progress: Option<ByteCount>,
}

/// How many bytes of long work are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteCount {
    pub done: u64,
    /// `None` if it is not known.
    pub total: Option<u64>,
}

impl Event {
    /// The line for a console: `[   12.345] disk: warning: ...`.
    pub fn for_consoles(&self) -> String {
        format!("[{:9.3}] {}", self.time, self.line())
    }

    /// The line for a terminal: `disk: warning: ...`. Lines of the sub-command itself
    /// have no stage. The line has no time, because the time since boot means nothing to
    /// the user of a sub-command.
    pub fn for_terminals(&self) -> String {
        match self.stage.as_str() {
            "tools" => self.graded(),
            stage => format!("{stage}: {}", self.graded()),
        }
    }

    /// The line for the journal: `<4>disk: warning: ...`.
    pub fn for_journal(&self) -> String {
        format!("<{}>{}", self.severity(), self.line())
    }

    /// The line without its time: `disk: warning: ...`.
    pub fn line(&self) -> String {
        format!("{}: {}", self.stage, self.graded())
    }

    /// The text with its level: `warning: ...`.
    pub fn graded(&self) -> String {
        let grade = match self.level {
            Level::ERROR => "FAILED ",
            Level::WARN => "warning: ",
            _ => "",
        };
        format!("{grade}{}", self.text)
    }

    /// The level as syslog and the journal number it (RFC 5424, section 6.2.1).
    pub fn severity(&self) -> u8 {
        match self.level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        }
    }

    /// The event for programs:
    /// `{"v":1,"sequence":..,"time":..,"stage":..,"level":..,"text":..,"progress":{..}}`.
    /// `progress` is missing if the event has none.
    pub fn json(&self) -> Value {
        let mut value = json!({
            "v": VERSION,
            "sequence": self.sequence,
            "time": (self.time * 1000.0).round() / 1000.0,
            "stage": self.stage,
            "level": self.level.as_str().to_ascii_lowercase(),
            "text": self.text,
        });
        if let Some(progress) = &self.progress {
            value["progress"] = json!({"done": progress.done, "total": progress.total});
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(level: Level) -> Event {
        Event {
            sequence: 7,
            time: 1.5,
            stage: "disk".into(),
            level,
            text: "x".into(),
            progress: None,
        }
    }

    #[test]
    fn lines_say_how_grave_they_are() {
        for (level, console, journal) in [
            (
                Level::ERROR,
                "[    1.500] disk: FAILED x",
                "<3>disk: FAILED x",
            ),
            (
                Level::WARN,
                "[    1.500] disk: warning: x",
                "<4>disk: warning: x",
            ),
            (Level::INFO, "[    1.500] disk: x", "<6>disk: x"),
            (Level::DEBUG, "[    1.500] disk: x", "<7>disk: x"),
        ] {
            assert_eq!(event(level).for_consoles(), console);
            assert_eq!(event(level).for_journal(), journal);
        }
    }

    #[test]
    fn the_json_form_has_progress_only_if_there_is_some() {
        let mut event = event(Level::WARN);
        assert_eq!(
            event.json(),
            json!({"v": 1, "sequence": 7, "time": 1.5, "stage": "disk", "level": "warn", "text": "x"})
        );
        event.progress = Some(ByteCount {
            done: 5,
            total: None,
        });
        assert_eq!(event.json()["progress"], json!({"done": 5, "total": null}));
    }
}
