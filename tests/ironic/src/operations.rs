//! Operators' actions other than deployment: adopt a node that is already deployed,
//! abort a cleaning, clean with a runbook, service a node in use.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use landfall_tests::config_drive;
use landfall_tests::lab::Lab;
use landfall_tests::program;
use serde_json::json;

use super::node::{QUICK, WITH_AGENT};
use super::plan::Plan;
use super::restarts::{AWAY, agent_boots};
use super::scenario::{Place, installed_system_again, note};
use super::services::Stop;

/// The name of the runbook. Ironic applies a runbook only to nodes with the
/// trait of the same name.
const RUNBOOK: &str = "CUSTOM_ERASE";

/// The number of the boot partition in the test image, and the content of the file that
/// the service writes there.
const BOOT_PARTITION: u32 = 3;
const SERVICED: &str = "by the service";

impl Place {
    pub(super) async fn operations(&self, lab: &Lab, plan: &Plan) -> Result<()> {
        self.adopt(lab).await?;
        self.clean_by_runbook(lab).await?;
        // Switch automatic cleaning off, because the runbook has just erased
        // everything.
        self.node.set(&[("/automated_clean", false.into())]).await?;
        self.node
            .change("provide", json!({}), "available", QUICK)
            .await?;
        self.deploy(lab, plan).await?;
        self.service_while_the_conductor_restarts(lab).await
    }

    /// Ironic adopts the node as deployed. Then the node is undeployed, and Ironic
    /// cleans it.
    async fn adopt(&self, lab: &Lab) -> Result<()> {
        let clock = Instant::now();
        self.node
            .set(&[("/instance_info", self.instance_info.clone())])
            .await?;
        self.node
            .change("adopt", json!({}), "active", QUICK)
            .await?;
        note(lab, "adoption", clock);
        self.undeploy(lab).await?;
        self.node
            .change("manage", json!({}), "manageable", QUICK)
            .await
            .map(drop)
    }

    /// The first cleaning is aborted while the agent boots. The second succeeds.
    async fn clean_by_runbook(&self, lab: &Lab) -> Result<()> {
        let steps = json!([
            {"interface": "deploy", "step": "erase_devices_metadata", "args": {}, "order": 1}
        ]);
        self.node.add_runbook(RUNBOOK, steps).await?;
        let clean = json!({"target": "clean", "runbook": RUNBOOK});
        let clock = Instant::now();
        self.node.ask(&clean).await?;
        self.node.reaches("clean wait", WITH_AGENT).await?;
        self.node.ask(&json!({"target": "abort"})).await?;
        self.node.fails("clean failed").await?;
        note(lab, "a cleaning until it was aborted", clock);
        self.node
            .change("manage", json!({}), "manageable", QUICK)
            .await?;

        let clock = Instant::now();
        self.node.ask(&clean).await?;
        self.node.reaches("manageable", WITH_AGENT).await?;
        note(lab, "cleaning by a runbook", clock);
        Ok(())
    }

    /// The conductor is killed while the node waits for its agent. The agent then
    /// writes a file into the installed system.
    async fn service_while_the_conductor_restarts(&self, lab: &Lab) -> Result<()> {
        let mark = lab.journal.mark();
        let clock = Instant::now();
        let file = json!({
            "path": "/serviced", "partition": BOOT_PARTITION,
            "content": BASE64_STANDARD.encode(SERVICED),
        });
        let request = json!({"target": "service", "service_steps": [
            {"interface": "deploy", "step": "inject_files", "args": {"files": [file]}}
        ]});
        self.node.ask(&request).await?;
        self.node.reaches("service wait", WITH_AGENT).await?;
        agent_boots(lab, mark).await?;
        self.ironic.restart(lab, Stop::Kill, AWAY).await?;
        self.node.reaches("active", WITH_AGENT).await?;
        note(lab, "service", clock);
        installed_system_again(lab, mark).await?;
        let found = self.file_in_boot("/serviced").await?;
        ensure!(found == SERVICED, "expected '{SERVICED}', found '{found}'");
        Ok(())
    }

    /// The text of a file in the installed system's boot partition, read with
    /// e2fsprogs.
    async fn file_in_boot(&self, path: &str) -> Result<String> {
        let disk = self.guest.disk.display().to_string();
        let partitions = config_drive::partitions(&disk).await?;
        let boot = partitions.iter().find(|part| part.number == BOOT_PARTITION);
        let offset = boot.context("no boot partition")?.first_byte;
        let (command, part) = (format!("cat {path}"), format!("{disk}?offset={offset}"));
        let output = program::run("debugfs", &["-R", &command, &part]).await?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
