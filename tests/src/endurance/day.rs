//! A day, compressed: agents that heartbeat and write a slow image, while the conductor
//! asks for the end of the command, is killed, and somebody reads the status pages.
//! Their memory and open files must stay flat.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::time::sleep;

use super::cast::{Link, Part, Trouble};
use super::conductor::{AWAY, Conductor};
use super::deployments::{Ended, say};
use super::images::Images;
use super::machine::Machine;
use super::measurements::{Sample, Trend, sample};
use super::private_machine::KERNEL_LOG;
use super::room::{Room, SYSLOG_PORT, command_line};
use crate::conductor::agent_client;
use crate::lab::{HOST_V4, Lab};

/// In seconds: Ironic's default of `[api]ramdisk_heartbeat_timeout`.
const USUAL_TIMEOUT: u32 = 300;
/// In seconds, for this day. The agent sends a heartbeat after 0.3 to 0.6 of it.
pub const TIMEOUT: u32 = 1;
/// How long the day lasts: 4.8 minutes.
pub const DAY: Duration = Duration::from_secs((86_400 * TIMEOUT / USUAL_TIMEOUT) as u64);

/// Agents that live through the day.
pub const AGENTS: usize = 10;

const PAUSE: Duration = Duration::from_secs(2);
/// How long Ironic may take for a change of a node's state.
const QUICK: Duration = Duration::from_secs(180);

/// The pages that somebody reads: each agent's in turn, one every [`PAUSE`].
const PAGES: [&str; 4] = ["/", "/status.json", "/metrics", "/log.txt"];

/// The result for one agent.
#[derive(Debug, Clone)]
pub struct Waited {
    pub part: Part,
    /// Accepted heartbeats, in steps of fifty, as the agent logs them.
    pub heartbeats: u64,
    pub pages: u64,
    pub trend: Option<Trend>,
    pub crashes: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Day {
    pub lasted: Duration,
    pub conductor_restarts: u32,
    pub syslog_messages: u64,
    pub agents: Vec<Waited>,
}

/// An agent with a command that does not end.
struct Waiting<'a> {
    part: &'a Part,
    machine: &'a Machine,
    pages: reqwest::Client,
    read: u64,
    samples: Vec<Sample>,
}

/// Deploys nodes again with an image that takes longer than `lasts`, and measures their
/// agents meanwhile.
///
/// # Errors
/// If a node does not get there, or an agent does not answer.
pub async fn spend(
    lab: &Lab,
    room: &Room,
    ended: &[Ended],
    images: &Images,
    conductor: &mut Conductor,
    lasts: Duration,
) -> Result<Day> {
    let syslog = Syslog::start().await?;
    conductor.restart_with(lab, TIMEOUT).await?;
    let restarts = conductor.restarts();
    let chosen = ended
        .iter()
        .enumerate()
        .filter(|(_, one)| one.state == "active" && one.part.trouble == Trouble::None)
        .take(AGENTS);
    let mut agents = Vec::new();
    for (index, one) in chosen {
        let machine = &room.machines[index];
        let part = &one.part;
        let waiting = deploy(conductor, images, machine, part)
            .await
            .with_context(|| format!("deploying {} again", part.name()))?;
        agents.push(waiting);
    }
    say(&format!(
        "{} agents work for {} s",
        agents.len(),
        lasts.as_secs()
    ));
    let began = Instant::now();
    let mut kills = [0.3, 0.6]
        .map(|share| lasts.mul_f64(share))
        .into_iter()
        .peekable();
    let mut turn = 0;
    while began.elapsed() < lasts {
        conductor.measure();
        for agent in &mut agents {
            agent
                .samples
                .extend(agent.machine.seen().pid.and_then(sample));
        }
        if !agents.is_empty() {
            let count = agents.len();
            let page = PAGES[turn / count % PAGES.len()];
            agents[turn % count].read(page).await;
            turn += 1;
        }
        if kills.next_if(|due| began.elapsed() > *due).is_some() {
            say("the conductor is killed");
            conductor.restart(lab, AWAY).await?;
            say("the conductor is back");
        }
        sleep(PAUSE).await;
    }
    let day = Day {
        lasted: began.elapsed(),
        conductor_restarts: conductor.restarts() - restarts,
        syslog_messages: syslog.messages.load(Ordering::Relaxed),
        agents: agents.iter().map(Waiting::result).collect(),
    };
    for agent in &agents {
        agent.machine.power_off();
    }
    Ok(day)
}

/// Deploys the node again, with an image that takes longer than the day.
async fn deploy<'a>(
    conductor: &Conductor,
    images: &Images,
    machine: &'a Machine,
    part: &'a Part,
) -> Result<Waiting<'a>> {
    let (api, name) = (&conductor.api, part.name());
    api.provision(&name, &json!({"target": "deleted"})).await?;
    api.wait_for(&name, "available", QUICK).await?;
    let info = images.slow_instance_info();
    api.patch(&name, &[("/instance_info", info)]).await?;
    api.provision(&name, &json!({"target": "active"})).await?;
    api.wait_for(&name, "wait call-back", QUICK).await?;
    machine.power_on(&command_line(part));
    let node = api
        .wait_until(&name, "the agent at work", QUICK, |node| {
            let info = &node["driver_internal_info"];
            let step = node["deploy_step"]["step"] == "write_image";
            step && info["agent_verify_ca"].is_string()
        })
        .await?;
    let certificate = node["driver_internal_info"]["agent_verify_ca"]
        .as_str()
        .context("the node has no certificate of its agent")?;
    let pem = fs::read_to_string(certificate).with_context(|| format!("reading {certificate}"))?;
    Ok(Waiting {
        part,
        machine,
        pages: agent_client::trusting(&pem)?,
        read: 0,
        samples: Vec::new(),
    })
}

impl Waiting<'_> {
    /// Reads a page. A page that does not arrive over a poor link counts as not read.
    async fn read(&mut self, page: &str) {
        let url = format!("https://{}:9999{page}", self.part.address());
        let answer = self.pages.get(url).send().await;
        if let Ok(answer) = answer.and_then(reqwest::Response::error_for_status)
            && answer.bytes().await.is_ok()
        {
            self.read += 1;
        }
    }

    fn result(&self) -> Waited {
        let seen = self.machine.seen();
        let log = seen.pid.map(|pid| format!("/proc/{pid}/root{KERNEL_LOG}"));
        let log = log.and_then(|log| fs::read(log).ok()).unwrap_or_default();
        Waited {
            part: *self.part,
            heartbeats: heartbeats(&String::from_utf8_lossy(&log)),
            pages: self.read,
            trend: Trend::of(&self.samples),
            crashes: seen.crashes,
        }
    }
}

/// The last number in the lines "heartbeat 50 accepted; ...".
fn heartbeats(log: &str) -> u64 {
    let counted = |line: &str| {
        let (_, rest) = line.split_once("heartbeat ")?;
        let (number, rest) = rest.split_once(' ')?;
        rest.starts_with("accepted;").then(|| number.parse().ok())?
    };
    log.lines().filter_map(counted).max().unwrap_or_default()
}

/// Counts the messages that arrive.
struct Syslog {
    messages: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Syslog {
    async fn start() -> Result<Self> {
        let socket = UdpSocket::bind((HOST_V4, SYSLOG_PORT))
            .await
            .context("listening for syslog")?;
        let messages = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&messages);
        let task = tokio::spawn(async move {
            let mut message = vec![0; 65_536];
            while socket.recv(&mut message).await.is_ok() {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self { messages, task })
    }
}

impl Drop for Syslog {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Day {
    /// What is wrong; empty if every agent has waited without growing.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.agents.is_empty() {
            faults.push("no agent was left for the day".to_owned());
        }
        for agent in &self.agents {
            let name = agent.part.name();
            match agent.trend.map(|trend| trend.growth()) {
                None => faults.push(format!("{name}: too few samples of its memory")),
                Some(Some(growth)) => faults.push(format!("{name}: grows: {growth}")),
                Some(None) => {}
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

    pub(super) fn text(&self) -> String {
        let hours = self.lasted.as_secs_f64() * f64::from(USUAL_TIMEOUT / TIMEOUT) / 3600.0;
        let mut text = format!(
            "\nThe day: {} s with a heartbeat timeout of {TIMEOUT} s, which is {hours:.1} hours with Ironic's {USUAL_TIMEOUT} s. \
             The conductor was killed {} times. {} messages of syslog have arrived.\n\n\
             | agent | link | heartbeats | pages | resident KiB, first third | last third | files, first third | last third |\n\
             |---|---|---|---|---|---|---|---|\n",
            self.lasted.as_secs(),
            self.conductor_restarts,
            self.syslog_messages,
        );
        for agent in &self.agents {
            let link = if agent.part.link == Link::Poor {
                "poor"
            } else {
                "good"
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
                "| {name} | {link} | {heartbeats} | {pages} | {} | {} | {} | {} |",
                resident.0, resident.1, files.0, files.1
            );
        }
        text
    }

    pub(super) fn json(&self) -> Value {
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
            "agents": agents,
        })
    }
}

/// Fails with all faults in one text.
///
/// # Errors
/// If there is a fault.
pub fn must_be_none(faults: &[String]) -> Result<()> {
    if !faults.is_empty() {
        bail!("{} faults:\n{}", faults.len(), faults.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_counted_by_the_log() {
        let log = "<6>agent: heartbeat accepted by http://192.0.2.1:6385\n\
                   <6>agent: heartbeat 50 accepted; agent memory 8000 KiB resident\n\
                   <4>agent: heartbeat to http://192.0.2.1:6385: locked\n\
                   <6>agent: heartbeat 100 accepted; agent memory 8000 KiB resident\n";
        assert_eq!(heartbeats(log), 100);
        assert_eq!(heartbeats("heartbeat: no answer"), 0);
    }
}
