//! A compressed day: agents send heartbeats and write a slow image. Meanwhile the
//! conductor polls the state of the command and is killed twice, and a client reads the
//! status pages. The agents' memory and open files must not grow.

mod outcome;
mod syslog;

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub use outcome::{Day, Waited};
use syslog::Syslog;

use anyhow::{Context, Result, bail, ensure};
use landfall_tests::conductor::agent_client;
use landfall_tests::image_server;
use landfall_tests::lab::{HOST_V4, Lab};
use serde_json::json;
use tokio::time::sleep;

use super::cast::{Part, Trouble};
use super::compressed_time::TIMEOUT;
use super::conductor::{AWAY, Conductor};
use super::deployments::{Ended, say};
use super::images::Images;
use super::machine::Machine;
use super::measurements::{Sample, Trend, sample};
use super::open_files::{OpenFiles, from_clients, is_connected_to, more_of, open_files};
use super::private_machine::KERNEL_LOG;
use super::room::{Room, command_line};

/// How long the agent keeps a connection on which no request arrives: 30 s
/// (`HEAD_LIMIT` in agent/src/api/listen.rs), and 15 s more for a busy machine.
const IDLE: Duration = Duration::from_secs(30 + 15);

/// The maximum number of agents that take part in the day.
pub const AGENTS: usize = 10;

const PAUSE: Duration = Duration::from_secs(2);
/// The time limit for a change of a node's state in Ironic.
const QUICK: Duration = Duration::from_secs(180);

/// The status pages that the test reads: one page of one agent every [`PAUSE`].
const PAGES: [&str; 4] = ["/", "/status.json", "/metrics", "/log.txt"];

/// An agent whose deploy step does not end during the day.
struct Waiting<'a> {
    part: &'a Part,
    machine: &'a Machine,
    pages: reqwest::Client,
    read: u64,
    samples: Vec<Sample>,
    opened: Vec<OpenFiles>,
    most_clients: u64,
}

/// Deploys nodes again with an image that takes longer than `lasts`, and measures their
/// agents meanwhile.
///
/// # Errors
/// If a node does not reach the state in which its agent writes the image, or if the
/// conductor does not start again.
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
            agent.look();
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
    let lasted = began.elapsed();
    say("the conductor falls silent");
    conductor.freeze()?;
    sleep(IDLE).await;
    let day = Day {
        lasted,
        conductor_restarts: conductor.restarts() - restarts,
        syslog_messages: syslog.messages.load(Ordering::Relaxed),
        years: syslog.years(),
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
    // Wait until the agent reads its image. Only then has it opened all files that it
    // needs for its work.
    let image_server = SocketAddr::from((HOST_V4, image_server::PORT));
    let begun = Instant::now();
    while !machine
        .seen()
        .pid
        .and_then(open_files)
        .is_some_and(|open| is_connected_to(&open, image_server))
    {
        ensure!(begun.elapsed() < QUICK, "the agent does not read its image");
        sleep(PAUSE).await;
    }
    Ok(Waiting {
        part,
        machine,
        pages: agent_client::trusting(&pem)?,
        read: 0,
        samples: Vec::new(),
        opened: Vec::new(),
        most_clients: 0,
    })
}

impl Waiting<'_> {
    /// Takes a sample of the agent's memory and open files, if the agent runs.
    fn look(&mut self) {
        let pid = self.machine.seen().pid;
        let (Some(sample), Some(open)) = (pid.and_then(sample), pid.and_then(open_files)) else {
            return;
        };
        let clients = from_clients(&open);
        self.most_clients = self.most_clients.max(clients);
        self.samples.push(Sample {
            files: open.values().sum::<u64>() - clients,
            ..sample
        });
        self.opened.push(open);
    }

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
        let left = seen.pid.and_then(open_files).unwrap_or_default();
        let first = self.opened.first().cloned().unwrap_or_default();
        Waited {
            part: *self.part,
            heartbeats: heartbeats(&String::from_utf8_lossy(&log)),
            pages: self.read,
            trend: Trend::of(&self.samples),
            clients: (self.most_clients, from_clients(&left)),
            opened: more_of(&first, &left),
            crashes: seen.crashes,
        }
    }
}

/// The largest number in the lines "heartbeat 50 accepted; ...", or 0.
fn heartbeats(log: &str) -> u64 {
    let counted = |line: &str| {
        let (_, rest) = line.split_once("heartbeat ")?;
        let (number, rest) = rest.split_once(' ')?;
        rest.starts_with("accepted;").then(|| number.parse().ok())?
    };
    log.lines().filter_map(counted).max().unwrap_or_default()
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
