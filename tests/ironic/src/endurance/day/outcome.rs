//! How a day has ended, and what is wrong with it. Has no side effects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::IDLE;
use crate::endurance::cast::{Link, Part};
use crate::endurance::clock::have_jumped;
use crate::endurance::compressed_time::{TIMEOUT, USUAL_TIMEOUT};
use crate::endurance::measurements::Trend;

/// How many connections the agent keeps for one host that has shown the token
/// (`OF_ONE_ACQUAINTANCE` in agent/src/api/places.rs).
const MOST_CLIENTS: u64 = 64;

/// The result for one agent.
#[derive(Debug, Clone)]
pub struct Waited {
    pub part: Part,
    /// Accepted heartbeats, in steps of fifty, as the agent logs them.
    pub heartbeats: u64,
    pub pages: u64,
    /// The trend of memory, and of open files without the connections of clients.
    /// Ironic opens a connection for each command and leaves it open, so the number of
    /// these connections is the number of commands in half a minute, whatever the agent
    /// does.
    pub trend: Option<Trend>,
    /// The maximum number of concurrent connections of clients, and the number that is
    /// left after [`IDLE`], in which no client has sent anything.
    pub clients: (u64, u64),
    /// The files that are open at the end and were not at the start, in words.
    pub opened: String,
    pub crashes: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Day {
    pub lasted: Duration,
    pub conductor_restarts: u32,
    pub syslog_messages: u64,
    /// The years in the messages of syslog.
    pub years: BTreeSet<u16>,
    pub agents: Vec<Waited>,
}

impl Day {
    /// The faults. Empty if all agents ran through the day without growth, crashes or
    /// leftover connections.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.agents.is_empty() {
            faults.push("no agent was left for the day".to_owned());
        }
        let jumping = self.agents.iter().any(|agent| agent.part.clock_jumps());
        if jumping && !have_jumped(&self.years) {
            let years = &self.years;
            faults.push(format!(
                "no clock has jumped: the log has the years {years:?}"
            ));
        }
        for agent in &self.agents {
            let name = agent.part.name();
            match agent.trend.map(|trend| trend.growth()) {
                // An agent whose clock jumps runs in QEMU, whose memory is not the
                // agent's.
                _ if agent.part.clock_jumps() => {}
                None => faults.push(format!("{name}: too few samples of its memory")),
                Some(Some(growth)) => {
                    faults.push(format!("{name}: grows: {growth} ({})", agent.opened));
                }
                Some(None) => {}
            }
            let (most, left) = agent.clients;
            if most > MOST_CLIENTS {
                let text = format!("expected at most {MOST_CLIENTS} connections, found {most}");
                faults.push(format!("{name}: {text}"));
            }
            if left > 0 {
                let seconds = IDLE.as_secs();
                faults.push(format!(
                    "{name}: {left} connections are open after {seconds} s of silence"
                ));
            }
            if !agent.crashes.is_empty() {
                let crashes = &agent.crashes;
                faults.push(format!("{name}: ended by itself: {crashes:?}"));
            }
            if agent.heartbeats == 0 {
                faults.push(format!("{name}: Ironic has accepted no fifty heartbeats"));
            }
        }
        faults
    }

    pub(in crate::endurance) fn text(&self) -> String {
        let hours = self.lasted.as_secs_f64() * f64::from(USUAL_TIMEOUT / TIMEOUT) / 3600.0;
        let mut text = format!(
            "\nThe day: {} s with a heartbeat timeout of {TIMEOUT} s, which is {hours:.1} hours with Ironic's {USUAL_TIMEOUT} s. \
             The conductor was killed {} times. {} messages of syslog have arrived.\n\n\
             | agent | link | heartbeats | pages | resident KiB, first third | last third | files, first third | last third | connections of clients, most | after {} s of silence |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
            self.lasted.as_secs(),
            self.conductor_restarts,
            self.syslog_messages,
            IDLE.as_secs(),
        );
        for agent in &self.agents {
            let link = match agent.part.link {
                _ if agent.part.clock_jumps() => "good, clock jumps",
                Link::Good => "good",
                Link::Poor => "poor",
            };
            let (name, heartbeats, pages) = (agent.part.name(), agent.heartbeats, agent.pages);
            let Some(Trend {
                resident, files, ..
            }) = agent.trend
            else {
                continue;
            };
            let _ = writeln!(
                text,
                "| {name} | {link} | {heartbeats} | {pages} | {} | {} | {} | {} | {} | {} |",
                resident.0, resident.1, files.0, files.1, agent.clients.0, agent.clients.1
            );
        }
        text
    }

    pub(in crate::endurance) fn json(&self) -> Value {
        let agents: BTreeMap<String, Value> = self
            .agents
            .iter()
            .map(|agent| {
                let trend = agent.trend;
                let figures = json!({
                    "heartbeats": agent.heartbeats,
                    "pages": agent.pages,
                    "resident_kib": trend.map(|trend| [trend.resident.0, trend.resident.1]),
                    "open_files": trend.map(|trend| [trend.files.0, trend.files.1]),
                    "clients": [agent.clients.0, agent.clients.1],
                    "opened": agent.opened,
                    "samples": trend.map(|trend| trend.samples),
                });
                (agent.part.name(), figures)
            })
            .collect();
        json!({
            "seconds": self.lasted.as_secs_f64(),
            "heartbeat_timeout": TIMEOUT,
            "conductor_restarts": self.conductor_restarts,
            "syslog_messages": self.syslog_messages,
            "years": self.years,
            "agents": agents,
        })
    }
}
