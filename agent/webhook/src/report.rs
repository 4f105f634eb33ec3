//! A report as JSON. docs/events.md and docs/events.schema.json describe the format.

use std::time::Duration;

use landfall_report::failure::Failure;
use landfall_report::status;
use landfall_sys::boot_clock::seconds_since_boot;
use serde_json::{Value, json};

/// The version of the format. It changes when the meaning of a field changes; it does not
/// change when a field is added.
const VERSION: u32 = 1;

/// A random ID that the kernel creates at each boot (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What has happened.
#[derive(Debug, Clone)]
pub(super) enum What {
    Started,
    Progress,
    Retrying { reason: Reason, seconds: u64 },
    Done,
    Failed { reason: Reason },
}

impl What {
    pub(super) fn retrying(failure: &Failure, pause: Duration) -> Self {
        Self::Retrying {
            reason: Reason::of(failure),
            seconds: pause.as_secs_f64().ceil() as u64,
        }
    }

    pub(super) fn failed(failure: &Failure) -> Self {
        Self::Failed {
            reason: Reason::of(failure),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Progress => "progress",
            Self::Retrying { .. } => "retrying",
            Self::Done => "done",
            Self::Failed { .. } => "failed",
        }
    }

    fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Retrying { reason, .. } | Self::Failed { reason } => Some(reason),
            Self::Started | Self::Progress | Self::Done => None,
        }
    }
}

/// Why an attempt failed, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) text: String,
    /// What the operator can do.
    pub(super) remedy: Option<String>,
}

impl Reason {
    fn of(failure: &Failure) -> Self {
        Self {
            text: status::shown(&failure.details),
            remedy: failure.hint.as_deref().map(status::shown),
        }
    }
}

/// What has happened, and the machine's status at that time.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) what: What,
    time: f64,
    status: Value,
}

impl Report {
    /// A report with the current status.
    pub(super) fn new(what: What) -> Self {
        Self {
            what,
            time: seconds_since_boot(),
            // The status has no secrets. It is a plain struct, so it can always be
            // converted to JSON.
            status: serde_json::to_value(status::now()).unwrap_or_default(),
        }
    }

    pub(super) fn json(&self, sequence: u64) -> Value {
        let boot = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
        let mut value = json!({
            "v": VERSION,
            "event": self.what.name(),
            "sequence": sequence,
            "boot": boot.trim(),
            "time": (self.time * 1000.0).round() / 1000.0,
            "status": self.status,
        });
        if let Some(reason) = self.what.reason() {
            value["reason"] = json!({"text": reason.text, "remedy": reason.remedy});
        }
        if let What::Retrying { seconds, .. } = self.what {
            value["retry_seconds"] = json!(seconds);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use landfall_documentation::events_schema::{EventsSchema, Form, paths};

    use super::*;

    #[test]
    fn every_report_has_the_form_of_the_schema() {
        let schema = EventsSchema::read().unwrap();
        let failure = Failure::other("no disk found").hint("check the controller");
        let mut events = BTreeSet::new();
        let mut fields = BTreeSet::new();
        for what in [
            What::Started,
            What::Progress,
            What::retrying(&failure, Duration::from_secs(3)),
            What::Done,
            What::failed(&Failure::other("no disk found")),
        ] {
            let json = Report::new(what).json(7);
            assert_eq!(schema.fault(Form::Report, &json), None);
            events.insert(json["event"].as_str().unwrap().to_owned());
            let is_own = |path: &String| !path.starts_with("status.");
            fields.extend(paths(&json).into_iter().filter(is_own));
        }
        let described = schema.fields(Form::Report);
        assert_eq!(fields, described.keys().cloned().collect());
        assert_eq!(events, described["event"].iter().cloned().collect());
    }

    #[test]
    fn a_failure_is_reported_with_its_reason_and_without_secrets() {
        let failure = Failure::other("http://u:S3CRET@h/x: status 404").hint("token=S3CRET\x1b");
        for (what, event, seconds) in [
            (What::failed(&failure), "failed", None),
            (
                What::retrying(&failure, Duration::from_millis(4100)),
                "retrying",
                Some(5),
            ),
        ] {
            let json = Report::new(what).json(7);
            assert_eq!(json["v"], 1);
            assert_eq!(json["event"], event);
            assert_eq!(json["sequence"], 7);
            assert_eq!(json["boot"].as_str().unwrap().len(), 36);
            assert_eq!(json["reason"]["text"], "http://***@h/x: status 404");
            assert_eq!(json["reason"]["remedy"], "token=***?");
            assert_eq!(json["retry_seconds"].as_u64(), seconds);
            assert_eq!(json["status"]["v"], 1);
        }
        assert_eq!(Report::new(What::Done).json(1).get("reason"), None);
    }
}
