//! The real Ironic for many nodes without BMC: API and conductor in one process.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use landfall_tests::journal::Source;
use landfall_tests::lab::Lab;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::measurements::{cpu_seconds_of_tree, tree};
use crate::bare_metal_api::BareMetalApi;
use crate::configuration::Configuration;
use crate::environment;
use crate::service::Service;
use crate::services::tool;

/// The time between the kill of the conductor and its next start.
pub const AWAY: Duration = Duration::from_secs(15);

/// The reasons with which Ironic itself ends a deployment: Ironic was working on it
/// when it was killed, the image server had an outage, or SQLite was too slow. An
/// operator repeats such a deployment.
///
/// The first reason, a timeout, has a special cause: when Ironic was killed, it had
/// already deleted the node's token, but had not yet stored that the deployment had
/// failed. So it rejects the heartbeats of the agent.
pub const OUTAGES: [&str; 6] = [
    "Timeout reached while waiting for callback",
    "database is locked",
    "can't be resumed by conductor",
    "Validation of image href",
    "Failed to prepare",
    "Image download failed",
];

pub struct Conductor {
    pub api: BareMetalApi,
    service: Service,
    restarts: u32,
    /// CPU time in seconds of the processes that were killed.
    cpu_before: f64,
    cpu_now: f64,
}

/// A node in Ironic's list of all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeState {
    pub provision: String,
    pub last_error: String,
}

/// The settings that differ from those of the lab with one host. `heartbeat_timeout` is
/// in seconds.
fn settings(lab: &Lab, heartbeat_timeout: u32) -> String {
    let database = lab.path("ironic/ironic.sqlite");
    let database = database.display();
    // In seconds. In a run with few agents this is short enough to repeat a deployment
    // after a timeout, within the time limit of the test.
    let callback_timeout = 10 * heartbeat_timeout;
    format!(
        "[DEFAULT]
# The power of these nodes is in the hands of people, as Ironic sees it.
enabled_hardware_types = manual-management
enabled_boot_interfaces = ipxe
enabled_inspect_interfaces = no-inspect
default_inspect_interface = no-inspect
enabled_management_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = no-rescue
enabled_deploy_interfaces = direct
debug = false
[database]
# In seconds: how long a thread waits for another one that writes.
connection = sqlite:///{database}?timeout=60
[api]
ramdisk_heartbeat_timeout = {heartbeat_timeout}
[conductor]
enable_mdns = false
deploy_callback_timeout = {callback_timeout}
clean_callback_timeout = 0
max_concurrent_deploy = 250
max_concurrent_clean = 250
# At its start Ironic fails only so many nodes that it was working on when it was killed.
# The others stay in 'deploying' for good (_fail_if_in_state in base_manager.py).
periodic_max_workers = 240
workers_pool_size = 700
[agent]
deploy_logs_collect = never
# The power of a node without BMC does not change when its agent switches it off.
post_deploy_get_power_state_retries = 1
post_deploy_get_power_state_retry_interval = 1
"
    )
}

/// The names of the configuration files in the lab's folder. Settings in the second
/// override those in the first.
const FILES: [&str; 2] = ["ironic.conf", "endurance.conf"];

impl Conductor {
    /// Starts Ironic with an empty database.
    pub async fn start(lab: &Lab, heartbeat_timeout: u32) -> Result<Self> {
        let configuration = Configuration::default();
        for folder in configuration.folders(lab) {
            std::fs::create_dir_all(folder)?;
        }
        // Remove the log of an earlier run, if any.
        let _ = std::fs::remove_file(lab.log_path("ironic"));
        std::fs::copy(
            environment().join("schema.sqlite"),
            lab.path("ironic/ironic.sqlite"),
        )
        .context("copying the empty database (make ironic makes it)")?;
        std::fs::write(lab.path(FILES[0]), configuration.ironic(lab)?)?;
        configure(lab, heartbeat_timeout)?;
        let api = BareMetalApi::new(&configuration.api_url(), None, None)?;
        let service = start(lab, &api).await?;
        Ok(Self {
            api,
            service,
            restarts: 0,
            cpu_before: 0.0,
            cpu_now: 0.0,
        })
    }

    /// Kills Ironic with SIGKILL, and starts it again after `away`.
    pub async fn restart(&mut self, lab: &Lab, away: Duration) -> Result<()> {
        self.measure();
        self.restarts += 1;
        self.cpu_before += std::mem::take(&mut self.cpu_now);
        lab.journal.record(Source::Machine, "Ironic is killed");
        self.service.kill().await?;
        tokio::time::sleep(away).await;
        lab.journal.record(Source::Machine, "Ironic starts again");
        self.service = start(lab, &self.api).await?;
        Ok(())
    }

    /// Restarts Ironic with a new heartbeat timeout in seconds, without a pause. Agents
    /// that look up their node from now on get this timeout.
    pub async fn restart_with(&mut self, lab: &Lab, heartbeat_timeout: u32) -> Result<()> {
        configure(lab, heartbeat_timeout)?;
        self.restart(lab, Duration::ZERO).await
    }

    /// Stops all processes of Ironic with SIGSTOP. Their connections stay open.
    pub fn freeze(&self) -> Result<()> {
        for pid in tree(self.service.program()?.as_raw()) {
            kill(Pid::from_raw(pid), Signal::SIGSTOP).context("stopping Ironic")?;
        }
        Ok(())
    }

    pub fn measure(&mut self) {
        if let Ok(pid) = self.service.program() {
            self.cpu_now = cpu_seconds_of_tree(pid.as_raw()).max(self.cpu_now);
        }
    }

    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// CPU time in seconds of all processes of Ironic so far, including those that were
    /// killed.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu_before + self.cpu_now
    }

    /// The state of every node, by name.
    pub async fn states(&self) -> Result<BTreeMap<String, NodeState>> {
        let fields = "/v1/nodes?fields=name,provision_state,last_error&limit=1000";
        let answer = self.api.get(fields).await?;
        let nodes = answer["nodes"].as_array().context("no list of nodes")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let states = nodes.iter().map(|node| {
            let state = NodeState {
                provision: text(&node["provision_state"]),
                last_error: text(&node["last_error"]),
            };
            (text(&node["name"]), state)
        });
        Ok(states.collect())
    }
}

fn configure(lab: &Lab, heartbeat_timeout: u32) -> Result<()> {
    Ok(std::fs::write(
        lab.path(FILES[1]),
        settings(lab, heartbeat_timeout),
    )?)
}

async fn start(lab: &Lab, api: &BareMetalApi) -> Result<Service> {
    let files = FILES.map(|name| lab.path(name).display().to_string());
    let mut service = Service::start(
        lab,
        "ironic",
        &tool("ironic"),
        &["--config-file", &files[0], "--config-file", &files[1]],
        Some(Source::Ironic),
    )?;
    service
        .answers(async || api.get("/v1/nodes?limit=1").await.map(drop))
        .await?;
    Ok(service)
}
