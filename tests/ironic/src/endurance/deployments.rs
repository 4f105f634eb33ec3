//! Deploys all nodes at once, and waits until each is active or has failed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use landfall_tests::lab::Lab;
use reqwest::Method;
use serde_json::json;
use tokio::time::sleep;

use super::cast::{Expected, Part, Trouble};
use super::conductor::{AWAY, Conductor, NodeState, OUTAGES};
use super::images::{self, Images};
use super::machine::{Machine, SILENCE};
use super::measurements::{Sample, sample};
use super::room::{Room, command_line};
use crate::bare_metal_api::BareMetalApi;

/// Pause between two looks at all nodes.
const PAUSE: Duration = Duration::from_secs(2);
/// Pause between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(15);
/// The maximum number of concurrent requests to Ironic.
const REQUESTS: usize = 6;
/// How often the test repeats a deployment that an outage has ended, or the request for
/// a deployment.
const ATTEMPTS: usize = 6;
/// Ironic sends a token once. If Ironic is killed before the agent has the answer, the
/// agent locks the machine down until somebody switches its power off and on through
/// Ironic.
const TOKEN_LOST: &str = "the answer with the token was lost, power cycle";
/// The time limit from a node's state "active" until its agent has ended.
const FAREWELL: Duration = Duration::from_secs(60);

/// About the time from power on until an agent writes its image.
const AT_WORK: Duration = Duration::from_secs(8);

/// When the conductor is killed: at these shares of nodes whose agents write their
/// image, and of nodes that have ended.
const KILLS: [Kill; 2] = [Kill::Started(0.6), Kill::Ended(0.4)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kill {
    Started(f64),
    Ended(f64),
}

/// How a node has ended, and the resources that its agent used.
#[derive(Debug, Clone)]
pub struct Ended {
    pub part: Part,
    /// Ironic's provision state.
    pub state: String,
    /// `last_error` of the node.
    pub reason: String,
    /// The time from the first request for a deployment to the end of this one.
    pub after: Duration,
    /// One reason for each repetition of the deployment or the boot: Ironic's reason if
    /// the deployment ended because the conductor had an outage or could not reach the
    /// image server, `TOKEN_LOST` if the host was power cycled.
    pub repeated: Vec<String>,
    /// How the agent asked to end the boot. `None` after a failure, because the agent then
    /// keeps running.
    pub ending: Option<&'static str>,
    /// How agents of this node ended by themselves, for each time.
    pub crashes: Vec<String>,
    pub peak_kib: u64,
    pub most_files: u64,
}

struct Run<'a> {
    lab: &'a Lab,
    room: &'a Room,
    cast: &'a [Part],
    states: BTreeMap<String, NodeState>,
    nodes: Vec<Progress>,
    began: Instant,
}

/// The progress of one node.
#[derive(Default)]
struct Progress {
    /// The machine was switched on in this attempt.
    powered: bool,
    /// When the machine was switched on for the first time.
    started: Option<Instant>,
    repeated: Vec<String>,
    crashes: Vec<String>,
    peak_kib: u64,
    most_files: u64,
    ended: Option<(NodeState, Duration)>,
    /// The sample of the last look.
    last: Option<Sample>,
}

/// Enrols and deploys all nodes.
///
/// # Errors
/// If Ironic rejects a request, if a node has not ended after `limit`, if an agent
/// hangs or ends by itself for good, or if the conductor does not start again.
pub async fn deploy_all(
    lab: &Lab,
    room: &Room,
    cast: &[Part],
    images: &Images,
    conductor: &mut Conductor,
    limit: Duration,
) -> Result<Vec<Ended>> {
    let began = Instant::now();
    enrol_all(&conductor.api, cast, images).await?;
    say(&format!(
        "{} nodes enrolled in {:.0} s",
        cast.len(),
        began.elapsed().as_secs_f64()
    ));
    let began = Instant::now();
    for_each(cast, async |part| ask_to_deploy(&conductor.api, part).await).await?;
    let mut run = Run {
        lab,
        room,
        cast,
        states: BTreeMap::new(),
        nodes: cast.iter().map(|_| Progress::default()).collect(),
        began,
    };
    run.until_all_ended(conductor, limit).await?;
    run.farewell().await;
    Ok(run.result())
}

async fn for_each(cast: &[Part], request: impl AsyncFn(&Part) -> Result<()>) -> Result<()> {
    let request = &request;
    stream::iter(cast)
        .map(|part| async move {
            request(part)
                .await
                .with_context(|| format!("node {}", part.name()))
        })
        .buffer_unordered(REQUESTS)
        .try_collect()
        .await
}

/// Enrols the nodes and makes them available, without cleaning.
async fn enrol_all(api: &BareMetalApi, cast: &[Part], images: &Images) -> Result<()> {
    for_each(cast, async |part| {
        let mut properties = json!({"cpu_arch": "x86_64", "capabilities": "boot_mode:bios"});
        if part.trouble == Trouble::LargeImage {
            // Without this hint the agent would choose no disk, because this one is too
            // small for a root disk.
            properties["root_device"] = json!({"name": "/dev/sda"});
        }
        let node = json!({
            "name": part.name(),
            "driver": "manual-management",
            "deploy_interface": "direct",
            "automated_clean": false,
            "properties": properties,
            "driver_info": images.driver_info(),
            "instance_info": images.instance_info(part),
        });
        let made = api.request(Method::POST, "/v1/nodes", Some(&node)).await?;
        let port = json!({"node_uuid": made["uuid"], "address": part.mac(), "pxe_enabled": true});
        api.request(Method::POST, "/v1/ports", Some(&port)).await?;
        for (target, state) in [("manage", "manageable"), ("provide", "available")] {
            api.provision(&part.name(), &json!({"target": target}))
                .await?;
            api.wait_for(&part.name(), state, Duration::from_secs(300))
                .await?;
        }
        Ok(())
    })
    .await
}

/// Requests the deployment. Repeats the request if Ironic cannot check the image at
/// that moment, because the image server is away.
async fn ask_to_deploy(api: &BareMetalApi, part: &Part) -> Result<()> {
    for _ in 0..ATTEMPTS {
        match api
            .provision(&part.name(), &json!({"target": "active"}))
            .await
        {
            Ok(()) => return Ok(()),
            Err(error) if is_outage(&format!("{error:#}")) => sleep(images::AWAY).await,
            Err(error) => {
                // A busy API may have accepted a request that it has not answered.
                let node = api.node(&part.name()).await?;
                let state = node["provision_state"].as_str().unwrap_or_default();
                if !matches!(state, "available" | "deploy failed" | "error") {
                    return Ok(());
                }
                say(&format!("{}: asking again: {error:#}", part.name()));
            }
        }
    }
    bail!("Ironic does not accept the request for the deployment")
}

fn is_outage(reason: &str) -> bool {
    OUTAGES.iter().any(|outage| reason.contains(outage))
}

impl Run<'_> {
    async fn until_all_ended(&mut self, conductor: &mut Conductor, limit: Duration) -> Result<()> {
        let mut kills = KILLS.iter().peekable();
        let mut last_report = Instant::now();
        loop {
            conductor.measure();
            // If the API is too busy to answer, the next turn of the loop asks again.
            if let Ok(states) = conductor.states().await {
                self.states = states;
            }
            self.look(&conductor.api).await?;
            if self.ended() == self.cast.len() {
                return Ok(());
            }
            if self.began.elapsed() > limit {
                bail!("not ended after {} s: {}", limit.as_secs(), self.waiting());
            }
            if last_report.elapsed() > PROGRESS {
                say(&self.progress());
                last_report = Instant::now();
            }
            if kills.next_if(|kill| self.is_time_to(**kill)).is_some() {
                say("the conductor is killed");
                conductor.restart(self.lab, AWAY).await?;
                say("the conductor is back");
            }
            sleep(PAUSE).await;
        }
    }

    fn is_time_to(&self, kill: Kill) -> bool {
        let share = |count: usize| count as f64 / self.cast.len() as f64;
        match kill {
            Kill::Started(wanted) => {
                let at_work =
                    |node: &&Progress| node.started.is_some_and(|began| began.elapsed() > AT_WORK);
                share(self.nodes.iter().filter(at_work).count()) >= wanted
            }
            Kill::Ended(wanted) => share(self.ended()) >= wanted,
        }
    }

    fn ended(&self) -> usize {
        self.nodes
            .iter()
            .filter(|node| node.ended.is_some())
            .count()
    }

    /// Looks at each node and its machine once. Switches the machine on when Ironic
    /// waits for the agent, and repeats a deployment that an outage has ended.
    async fn look(&mut self, api: &BareMetalApi) -> Result<()> {
        for (index, part) in self.cast.iter().enumerate() {
            let machine = &self.room.machines[index];
            let node = &mut self.nodes[index];
            node.measure(machine);
            if node.ended.is_some() {
                continue;
            }
            let seen = machine.seen();
            if let Some(silence) = seen.last_sign.map(|sign| sign.elapsed())
                && seen.pid.is_some()
                && silence > SILENCE
            {
                bail!("the agent of {} hangs: silent for {silence:?}", part.name());
            }
            if seen.ended_for_good() {
                bail!(
                    "the agent of {} ends by itself: {}",
                    part.name(),
                    seen.crashes.join(", ")
                );
            }
            let Some(state) = self.states.get(&part.name()) else {
                continue;
            };
            match state.provision.as_str() {
                "wait call-back" if !node.powered => {
                    node.powered = true;
                    node.started.get_or_insert_with(Instant::now);
                    machine.power_on(&command_line(part));
                }
                "wait call-back"
                    if seen.ending == Some("lock down") && node.repeated.len() < ATTEMPTS =>
                {
                    // A power cycle is the remedy that the agent prints.
                    node.repeated.push(TOKEN_LOST.to_owned());
                    let path = format!("/v1/nodes/{}/states/power", part.name());
                    let power = json!({"target": "rebooting"});
                    api.request(Method::PUT, &path, Some(&power)).await?;
                    machine.power_on(&command_line(part));
                }
                "active" => node.ended = Some((state.clone(), self.began.elapsed())),
                "deploy failed" | "error" => {
                    let planned = matches!(part.trouble.expected(),
                        Expected::FailsWith(text) if state.last_error.contains(text));
                    if planned || !is_outage(&state.last_error) || node.repeated.len() >= ATTEMPTS {
                        node.ended = Some((state.clone(), self.began.elapsed()));
                        continue;
                    }
                    node.repeated.push(state.last_error.clone());
                    node.forget_agent(machine);
                    self.states.remove(&part.name());
                    ask_to_deploy(api, part).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits until the agents of active nodes have ended, at most [`FAREWELL`]. Then
    /// switches all machines off.
    async fn farewell(&mut self) {
        let began = Instant::now();
        let active = |index: usize, nodes: &[Progress]| {
            let ended = nodes[index].ended.as_ref();
            ended.is_some_and(|(state, _)| state.provision == "active")
        };
        while began.elapsed() < FAREWELL {
            let late = (0..self.cast.len())
                .any(|index| active(index, &self.nodes) && self.room.machines[index].is_on());
            if !late {
                break;
            }
            sleep(PAUSE).await;
        }
        for machine in &self.room.machines {
            machine.power_off();
        }
    }

    fn progress(&self) -> String {
        let mut counts = BTreeMap::<&str, usize>::new();
        for state in self.states.values() {
            *counts.entry(&state.provision).or_default() += 1;
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(state, count)| format!("{count} {state}"))
            .collect();
        let running = self.nodes.iter().filter_map(|node| node.last);
        let resident: u64 = running.clone().map(|sample| sample.resident).sum();
        format!(
            "{:4.0} s: {}; {} agents with {} MiB",
            self.began.elapsed().as_secs_f64(),
            counts.join(", "),
            running.count(),
            resident / 1024
        )
    }

    fn waiting(&self) -> String {
        let waiting = self.cast.iter().zip(&self.nodes);
        let waiting: Vec<String> = waiting
            .filter(|(_, node)| node.ended.is_none())
            .map(|(part, _)| {
                let state = self.states.get(&part.name());
                let state = state.map_or("unknown", |state| &state.provision);
                format!("{} is {state} ({})", part.name(), part.trouble.in_words())
            })
            .collect();
        waiting.join("; ")
    }

    fn result(self) -> Vec<Ended> {
        let all = self.cast.iter().zip(self.nodes).enumerate();
        all.map(|(index, (part, mut node))| {
            let seen = self.room.machines[index].seen();
            node.crashes.extend(seen.crashes);
            let (state, after) = node.ended.unwrap_or_default();
            Ended {
                part: *part,
                state: state.provision,
                reason: state.last_error,
                after,
                repeated: node.repeated,
                ending: seen.ending,
                crashes: node.crashes,
                peak_kib: node.peak_kib,
                most_files: node.most_files,
            }
        })
        .collect()
    }
}

impl Progress {
    fn measure(&mut self, machine: &Machine) {
        self.last = machine.seen().pid.and_then(sample);
        if let Some(sample) = self.last {
            self.peak_kib = self.peak_kib.max(sample.peak);
            self.most_files = self.most_files.max(sample.files);
        }
    }

    /// Switches the machine off before the node is deployed again. Keeps the list of
    /// crashes.
    fn forget_agent(&mut self, machine: &Machine) {
        self.crashes.extend(machine.seen().crashes);
        machine.power_off();
        self.powered = false;
    }
}

/// Prints a line of progress.
pub fn say(text: &str) {
    eprintln!("endurance: {text}");
}
