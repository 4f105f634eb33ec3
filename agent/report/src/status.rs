//! What the machine is doing now. The stages of the boot keep it up to date; the
//! console's screen, the status page and the metrics show it.
//!
//! The status has no secrets: every text is masked when the status is read
//! ([`now`]), in this one place.

mod disk_state;
mod root_disk;

use std::fmt::{self, Write as _};
use std::sync::LazyLock;
use std::time::Duration;

use landfall_boot_params::without_secrets;
use landfall_sys::boot_clock::seconds_since_boot;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::event::{Event, VERSION};
use crate::failure::with_remedy;
use crate::{in_words, mib, printable};

pub use disk_state::{DiskChange, DiskState, report_complete_disk};
pub use root_disk::{RejectedDisk, RootDisk, chose_root_disk};

/// The possible beginnings of the text of a failed step `HTTP` if a server has answered,
/// but not as expected.
const UNEXPECTED_ANSWERS: [&str; 2] = ["status ", "a redirect to "];

/// The text of the step `route` if the packets go to the service without a gateway.
pub const ON_LINK: &str = "on the link";

static STATUS: LazyLock<watch::Sender<Status>> = LazyLock::new(watch::Sender::default);

/// The status in the JSON form of `/status.json`, which also has the time and the last
/// events. An unknown value is null or an empty text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The version of the JSON form, see [`VERSION`].
    pub v: u32,
    /// The version of Landfall.
    pub build: String,
    pub host: Host,
    pub network: Network,
    /// The service that the agent looks for or has found: its URL.
    pub service: Option<String>,
    /// Whether the service has answered.
    pub service_answers: bool,
    /// The UUID of Ironic's node.
    pub node: Option<String>,
    pub step: Option<Step>,
    /// The long work within the step.
    pub progress: Option<Progress>,
    pub root_disk: Option<RootDisk>,
    /// `None` before the first write to a disk, and after an attempt that has failed.
    pub disk_state: Option<DiskState>,
    pub last_error: Option<LastError>,
    /// Set when the work on this machine is finished. Says what happens next.
    pub done: Option<String>,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            v: VERSION,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            host: Host::default(),
            network: Network::default(),
            service: None,
            service_answers: false,
            node: None,
            step: None,
            progress: None,
            root_disk: None,
            disk_state: None,
            last_error: None,
            done: None,
        }
    }
}

impl Status {
    /// `done` if the work is finished, otherwise the step; then progress and last error,
    /// in one line. `None` before the first step.
    pub fn in_words(&self) -> Option<String> {
        let step = self.step.as_ref().map(|step| &step.name);
        let mut words = self.done.as_ref().or(step)?.clone();
        if let Some(progress) = &self.progress {
            // Writing to a String cannot fail.
            let _ = write!(words, "; {progress}");
        }
        if let Some(error) = &self.last_error {
            let _ = write!(words, "; last error: {}: {}", error.stage, error.text);
        }
        Some(words)
    }

    /// A text that says whether the service has answered. An unexpected answer is
    /// recorded only as a step of a NIC, so this searches the steps of all NICs for one.
    pub fn service_in_words(&self) -> &'static str {
        let mut steps = self.network.nics.iter().flat_map(|nic| &nic.way);
        if self.service_answers {
            "answers"
        } else if steps.any(WayStep::is_unexpected_answer) {
            "answers, but not as expected"
        } else {
            "has not answered yet"
        }
    }

    /// Why an operator must not change the network now. `None` if the form may change it.
    pub fn why_network_stays(&self) -> Option<&'static str> {
        if self.done.is_some() {
            Some("the agent is ending")
        } else if self.node.is_some() {
            Some("Ironic already uses this network for its commands; reset the machine first")
        } else if self.progress.is_some() || self.disk_state == Some(DiskState::Writing) {
            Some("the disk is being written; reset the machine first")
        } else if self.disk_state == Some(DiskState::Complete) {
            Some("the disk is complete; reset the machine first")
        } else {
            None
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    pub name: String,
    pub vendor: String,
    pub product: String,
    pub serial: String,
    /// `uefi` or `bios`.
    pub boot_mode: String,
    /// Unknown if the firmware has no such variable.
    pub secure_boot: Option<bool>,
    /// In MiB.
    pub memory: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// Where the network's configuration comes from.
    pub source: Option<String>,
    /// What is wrong with the configuration. The text after ` -- ` is the remedy.
    pub faults: Vec<String>,
    pub nics: Vec<Nic>,
    /// Why there is no NIC.
    pub no_nic: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nic {
    pub name: String,
    /// The current hardware address. The ports of a bond have the address of the bond.
    pub mac: String,
    /// The factory hardware address, if the driver knows it.
    pub permanent_mac: Option<String>,
    pub driver: Option<String>,
    /// The kernel's name of the mode, if this is a bond.
    pub bond_mode: Option<String>,
    /// The names of the ports, if this is a bond, a bridge or a VRF.
    pub ports: Vec<String>,
    /// The VLAN ID, if this is a VLAN.
    pub vlan: Option<u16>,
    /// The name of the NIC that carries this VLAN.
    pub parent: Option<String>,
    pub carrier: bool,
    /// In Mbit/s.
    pub speed: Option<u32>,
    /// Each address with its source: `192.0.2.10/24 from DHCP server 192.0.2.1`.
    pub addresses: Vec<String>,
    /// The switch and its port, as LLDP announces them.
    pub neighbour: Option<String>,
    /// The steps of the way to the service, up to the first one that is not done.
    pub way: Vec<WayStep>,
}

impl Nic {
    /// One line with the parts of a virtual NIC, the address, driver, link and
    /// neighbour. The address is the permanent MAC address: it is on the NIC's label,
    /// and a plan or a port in Ironic identifies the NIC by it.
    pub fn in_words(&self) -> String {
        let mut parts: Vec<String> = self.made_of().into_iter().collect();
        parts.push(self.permanent_mac.as_ref().unwrap_or(&self.mac).clone());
        parts.extend(self.driver.clone());
        parts.push(match (self.carrier, self.speed) {
            (false, _) => "no carrier".to_owned(),
            (true, None) => "carrier".to_owned(),
            (true, Some(speed)) => format!("{speed} Mbit/s"),
        });
        parts.extend(self.neighbour.as_ref().map(|switch| format!("to {switch}")));
        parts.join(", ")
    }

    /// `802.3ad of enp0s2 enp0s3`, `VLAN 100 on bond0`.
    fn made_of(&self) -> Option<String> {
        let ports = self.ports.join(" ");
        match (&self.bond_mode, self.vlan, &self.parent) {
            (Some(mode), _, _) if ports.is_empty() => Some(format!("{mode} without ports")),
            (Some(mode), _, _) => Some(format!("{mode} of {ports}")),
            (None, Some(id), Some(parent)) => Some(format!("VLAN {id} on {parent}")),
            (None, Some(id), None) => Some(format!("VLAN {id}")),
            (None, None, _) => (!ports.is_empty()).then(|| format!("ports {ports}")),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WayStep {
    /// `carrier`, `address`, `route`, `DNS`, `TCP`, `TLS` or `HTTP`.
    pub step: String,
    /// `done`, `waiting` or `failed`.
    pub outcome: String,
    pub text: String,
    /// What the operator can do about a failed step.
    pub remedy: Option<String>,
}

impl WayStep {
    /// Whether this step has failed because a server has answered, but not as expected.
    pub fn is_unexpected_answer(&self) -> bool {
        let begins = |begin: &&str| self.text.starts_with(*begin);
        self.step == "HTTP" && self.outcome == "failed" && UNEXPECTED_ANSWERS.iter().any(begins)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    pub name: String,
    /// When it began, in seconds since boot.
    pub since: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    pub what: String,
    /// In bytes.
    pub done: u64,
    /// In bytes, if it is known.
    pub total: Option<u64>,
    /// In bytes per second, since the work began.
    pub rate: u64,
    /// In seconds, if it can be estimated.
    pub remaining: Option<u64>,
}

impl Progress {
    /// The progress of work that has taken `elapsed` so far.
    pub fn new(what: &str, done: u64, total: Option<u64>, elapsed: Duration) -> Self {
        let rate = (done as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
        let left = total.map(|total| total.saturating_sub(done));
        // In the first seconds the rate is no basis for an estimate.
        let is_known = elapsed >= Duration::from_secs(2) && rate > 0;
        Self {
            what: what.to_owned(),
            done,
            total,
            rate,
            remaining: left.filter(|_| is_known).map(|left| left.div_ceil(rate)),
        }
    }
}

const MIB: u64 = 1 << 20;

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, mib(self.done))?;
        if let Some(total) = self.total.filter(|total| *total > 0) {
            let percent = self.done.saturating_mul(100) / total;
            write!(f, " of {} ({percent} %)", mib(total))?;
        }
        match self.rate {
            ..MIB => write!(f, ", {} KiB/s", self.rate / 1024)?,
            rate => write!(f, ", {}/s", mib(rate))?,
        }
        match self.remaining {
            Some(left) => write!(f, ", {} left", in_words(left)),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastError {
    /// In seconds since boot.
    pub time: f64,
    pub stage: String,
    pub text: String,
    /// What the operator can do.
    pub remedy: Option<String>,
}

impl LastError {
    /// The text before ` -- ` is the error, the text after it is the remedy.
    pub(crate) fn of(event: &Event) -> Self {
        let (text, remedy) = with_remedy(&event.text);
        Self {
            time: event.time,
            stage: event.stage.clone(),
            text: text.to_owned(),
            remedy: remedy.map(str::to_owned),
        }
    }
}

/// Changes the status of this machine.
pub fn update(change: impl FnOnce(&mut Status)) {
    STATUS.send_if_modified(|status| {
        let before = status.clone();
        change(status);
        *status != before
    });
}

/// Records the step that the machine begins.
pub fn begin_step(name: impl Into<String>) {
    let step = Step {
        name: name.into(),
        since: seconds_since_boot(),
    };
    update(|status| {
        if status.step.as_ref().is_none_or(|old| old.name != step.name) {
            status.step = Some(step);
        }
    });
}

/// Records why a request that the agent retries has failed. The record stays until
/// [`retry_succeeded`] or a newer error. If `remedy` is `None`, the text after ` -- ` is
/// the remedy.
pub fn report_retry(stage: &str, text: &str, remedy: Option<String>) {
    let (text, own_remedy) = with_remedy(text);
    let error = LastError {
        time: seconds_since_boot(),
        stage: stage.to_owned(),
        text: text.to_owned(),
        remedy: remedy.or(own_remedy.map(str::to_owned)),
    };
    update(|status| status.last_error = Some(error));
}

/// Records a fault that the operator should remove, although the work continues. The log
/// also has the fault as a warning, but later lines push the warning off the screen. The
/// text after ` -- `, if any, is the remedy.
pub fn report_fault(stage: &str, text: &str) {
    report_retry(stage, text, None);
}

/// Removes the last error if it is of this stage, because the request has succeeded.
pub fn retry_succeeded(stage: &str) {
    update(|status| {
        if status
            .last_error
            .as_ref()
            .is_some_and(|error| error.stage == stage)
        {
            status.last_error = None;
        }
    });
}

/// The status without secrets, and with only printable characters.
pub fn now() -> Status {
    masked(&STATUS.borrow())
}

/// The text without secrets, and with only printable characters.
pub fn shown(text: &str) -> String {
    printable(&without_secrets(text))
}

/// A receiver that changes with every change of the status. The status in it is not
/// masked; read it with [`now`] to show it.
pub fn changes() -> watch::Receiver<Status> {
    STATUS.subscribe()
}

pub(crate) fn masked(status: &Status) -> Status {
    let mut value = serde_json::to_value(status).unwrap_or_default();
    mask(&mut value);
    // This cannot fail, because `mask` only changes the content of texts.
    serde_json::from_value(value).unwrap_or_default()
}

fn mask(value: &mut Value) {
    match value {
        Value::String(text) => *text = shown(text),
        Value::Array(list) => list.iter_mut().for_each(mask),
        Value::Object(fields) => fields.values_mut().for_each(mask),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_and_no_control_character_leaves_the_status() {
        let secret = "https://user:S3CRET@ironic.example.org/\x1b[2J";
        let status = Status {
            service: Some(secret.into()),
            network: Network {
                nics: vec![Nic {
                    way: vec![WayStep {
                        text: secret.into(),
                        ..WayStep::default()
                    }],
                    ..Nic::default()
                }],
                ..Network::default()
            },
            ..Status::default()
        };
        let shown = serde_json::to_string(&masked(&status)).unwrap();
        assert!(
            !shown.contains("S3CRET") && !shown.contains("u001b"),
            "{shown}"
        );
        assert!(shown.contains("ironic.example.org"), "{shown}");
    }

    #[test]
    fn one_line_has_step_progress_and_last_error() {
        let mut status = Status::default();
        assert_eq!(status.in_words(), None);
        status.step = Some(Step {
            name: "deploy.write_image".into(),
            since: 1.0,
        });
        assert_eq!(status.in_words().as_deref(), Some("deploy.write_image"));
        let elapsed = Duration::from_secs(10);
        status.progress = Some(Progress::new("writing", 5 << 20, Some(10 << 20), elapsed));
        status.last_error = Some(LastError {
            stage: "disk".into(),
            text: "status 404".into(),
            ..LastError::default()
        });
        assert_eq!(
            status.in_words().as_deref(),
            Some(
                "deploy.write_image; writing: 5.0 MiB of 10.0 MiB (50 %), 512 KiB/s, 10 s left; last error: disk: status 404"
            )
        );
        status.done = Some("rebooting".into());
        assert!(status.in_words().unwrap().starts_with("rebooting; "));
    }

    #[test]
    fn the_ports_of_a_bond_show_their_own_addresses() {
        let nic = |permanent: Option<&str>| Nic {
            mac: "52:54:00:c0:ff:01".into(),
            permanent_mac: permanent.map(str::to_owned),
            driver: Some("virtio_net".into()),
            carrier: true,
            ..Nic::default()
        };
        for (permanent, expected) in [
            (
                Some("52:54:00:c0:ff:02"),
                "52:54:00:c0:ff:02, virtio_net, carrier",
            ),
            // A bond or VLAN, or a driver that does not know the permanent address.
            (None, "52:54:00:c0:ff:01, virtio_net, carrier"),
        ] {
            assert_eq!(nic(permanent).in_words(), expected);
        }
    }

    #[test]
    fn a_virtual_nic_shows_its_parts() {
        let nic = |bond_mode: Option<&str>, ports: &[&str], vlan| Nic {
            mac: "52:54:00:c0:ff:01".into(),
            bond_mode: bond_mode.map(str::to_owned),
            ports: ports.iter().map(|port| (*port).to_owned()).collect(),
            vlan,
            carrier: true,
            speed: Some(2000),
            ..Nic::default()
        };
        let on_bond = Nic {
            parent: Some("bond0".into()),
            ..nic(None, &[], Some(100))
        };
        for (nic, expected) in [
            (
                nic(Some("802.3ad"), &["enp0s2", "enp0s3"], None),
                "802.3ad of enp0s2 enp0s3, ",
            ),
            (
                nic(Some("active-backup"), &[], None),
                "active-backup without ports, ",
            ),
            (nic(None, &["enp0s2"], None), "ports enp0s2, "),
            (on_bond, "VLAN 100 on bond0, "),
            (nic(None, &[], Some(100)), "VLAN 100, "),
            (nic(None, &[], None), ""),
        ] {
            let expected = format!("{expected}52:54:00:c0:ff:01, 2000 Mbit/s");
            assert_eq!(nic.in_words(), expected);
        }
    }

    #[test]
    fn an_unexpected_answer_is_an_answer() {
        let step = |step: &str, outcome: &str, text: &str| WayStep {
            step: step.into(),
            outcome: outcome.into(),
            text: text.into(),
            remedy: None,
        };
        for (answers, last, expected) in [
            (true, step("HTTP", "done", "status 200"), "answers"),
            // No server gave a better answer, so the agent uses this one.
            (true, step("HTTP", "failed", "status 404"), "answers"),
            (
                false,
                step("HTTP", "failed", "status 400"),
                "answers, but not as expected",
            ),
            (
                false,
                step("HTTP", "failed", "a redirect to http://h/a, which the"),
                "answers, but not as expected",
            ),
            (
                false,
                step("HTTP", "done", "redirects to http://h/a"),
                "has not answered yet",
            ),
            (
                false,
                step("HTTP", "failed", "no answer in time"),
                "has not answered yet",
            ),
            (
                false,
                step("TCP", "failed", "connection refused"),
                "has not answered yet",
            ),
        ] {
            let case = format!("{last:?}");
            let status = Status {
                service_answers: answers,
                network: Network {
                    nics: vec![Nic {
                        way: vec![last],
                        ..Nic::default()
                    }],
                    ..Network::default()
                },
                ..Status::default()
            };
            assert_eq!(status.service_in_words(), expected, "{case}");
        }
        assert_eq!(Status::default().service_in_words(), "has not answered yet");
    }

    #[test]
    fn the_network_stays_while_it_is_in_use() {
        assert_eq!(Status::default().why_network_stays(), None);
        let in_use = [
            Status {
                node: Some("n".into()),
                ..Status::default()
            },
            Status {
                progress: Some(Progress::default()),
                ..Status::default()
            },
            // Between the download and the commit.
            Status {
                disk_state: Some(DiskState::Writing),
                ..Status::default()
            },
            // The boot entry has failed.
            Status {
                disk_state: Some(DiskState::Complete),
                ..Status::default()
            },
            Status {
                done: Some("locked down".into()),
                ..Status::default()
            },
        ];
        for status in in_use {
            assert!(status.why_network_stays().is_some(), "{status:?}");
        }
    }

    #[test]
    fn the_remaining_time_follows_the_rate() {
        let after = |seconds| Progress::new("x", 100, Some(1000), Duration::from_secs(seconds));
        assert_eq!(after(1).remaining, None, "too early");
        assert_eq!((after(10).rate, after(10).remaining), (10, Some(90)));
        let unknown = Progress::new("x", 100, None, Duration::from_secs(10));
        assert_eq!(unknown.remaining, None);
    }

    #[test]
    fn an_error_ends_where_its_remedy_begins() {
        let event = Event {
            sequence: 1,
            time: 2.0,
            stage: "disk".into(),
            level: tracing::Level::ERROR,
            text: "no disk found -- check the controller".into(),
            progress: None,
        };
        let error = LastError::of(&event);
        assert_eq!(error.text, "no disk found");
        assert_eq!(error.remedy.as_deref(), Some("check the controller"));
    }
}
