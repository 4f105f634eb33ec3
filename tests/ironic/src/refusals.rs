//! Ironic rejects what an agent sends: first an inventory that is too large, then its
//! lookups. The operator corrects the configuration, and the agent continues.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use landfall_tests::installation::BOOT;
use landfall_tests::journal::{Mark, Source};
use landfall_tests::lab::Lab;
use landfall_tests::site::MAC;

use super::Ironic;
use super::configuration::Configuration;
use super::node::WITH_AGENT;
use super::plan::Plan;
use super::restarts::agent_boots;
use super::scenario::Place;
use super::services::{Stop, write_configuration};

/// The time limit for the agent's next lookup: longer than the pause that the agent
/// makes after some failed lookups.
const NEXT_ATTEMPT: Duration = Duration::from_secs(120);

/// An argument of the ramdisk that the installed system must not have.
const FIPS: &str = "fips=1";

impl Place {
    pub(super) async fn refusals(&self, lab: &Lab, plan: &Plan) -> Result<()> {
        self.inventory_without_logs(lab).await?;

        // Now Ironic answers 403 to the lookup of the agent that boots to clean the
        // node.
        let refusing = Configuration {
            refuses_agents: true,
            ..plan.configuration
        };
        self.ironic.configure(lab, &refusing).await?;
        let mark = lab.journal.mark();
        self.node
            .ask(&serde_json::json!({"target": "provide"}))
            .await?;
        agent_boots(lab, mark).await?;
        ensure_logged(
            lab,
            mark,
            &[
                "lookup",
                "HTTP 403",
                "[api]enable_ramdisk_endpoints is off there",
            ],
        )
        .await?;
        self.ironic.configure(lab, &plan.configuration).await?;
        let mark = lab.journal.mark();
        lab.journal
            .wait_for("the next lookup", mark, NEXT_ATTEMPT, |event| {
                event.source == Source::Console && event.text.contains("this machine is node ")
            })
            .await?;
        self.node.reaches("available", WITH_AGENT).await?;

        let mark = lab.journal.mark();
        self.deploy(lab, plan).await?;
        let arguments = lab.journal.find(mark, |event| {
            event.source == Source::Console && event.text.contains("TEST-ROOT: cmdline: ")
        });
        let arguments = arguments
            .context("no arguments of the installed system")?
            .text;
        ensure!(!arguments.contains(FIPS), "{FIPS} is in {arguments}");
        Ok(())
    }

    /// The inventory with the logs is larger than Ironic accepts.
    async fn inventory_without_logs(&self, lab: &Lab) -> Result<()> {
        let mark = lab.journal.mark();
        let stored = self.node.inspect().await?;
        let text = ["413", "posting without the collector logs"];
        ensure_logged(lab, mark, &text).await?;
        let (inventory, data) = (&stored["inventory"], &stored["plugin_data"]);
        let nic = &inventory["interfaces"][0];
        ensure!(nic["mac_address"] == MAC, "the inventory has the NIC {nic}");
        ensure!(data["logs"].is_null(), "Ironic has the logs");
        Ok(())
    }
}

/// Waits for a line of the agent with all of these texts.
async fn ensure_logged(lab: &Lab, mark: Mark, texts: &[&str]) -> Result<()> {
    let what = format!("the console to say {texts:?}");
    lab.journal
        .wait_for(&what, mark, BOOT, |event| {
            event.source == Source::Console && texts.iter().all(|text| event.text.contains(text))
        })
        .await
        .map(drop)
}

impl Ironic {
    /// Restarts Ironic with this configuration.
    pub(super) async fn configure(&self, lab: &Lab, configuration: &Configuration) -> Result<()> {
        self.services.stop_ironic(Stop::Terminate).await?;
        write_configuration(lab, configuration)?;
        self.services.start_ironic(lab).await
    }
}
