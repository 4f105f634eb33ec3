//! Runs an inspection and deployments during which the conductor stops and starts
//! again.

use std::time::Duration;

use anyhow::Result;
use landfall_tests::ignition::Proof;
use landfall_tests::installation::{BOOT, DEPLOYMENT};
use landfall_tests::journal::{Mark, Source};
use landfall_tests::lab::Lab;
use serde_json::json;
use tokio::time::sleep;

use super::Ironic;
use super::node::{QUICK, WITH_AGENT};
use super::plan::Plan;
use super::scenario::Place;
use super::services::Stop;

/// How long the conductor is stopped: long enough for the agent to send heartbeats.
pub(super) const AWAY: Duration = Duration::from_secs(15);

/// How long the conductor is stopped during an inspection: longer than the time for
/// which ironic-python-agent retries to post its inventory.
const AWAY_FOR_LONG: Duration = Duration::from_secs(60);

impl Place {
    /// The conductor is killed while the agent boots for the inspection, terminated
    /// during the first write, and killed during the second. The third deployment
    /// is undeployed during the write.
    pub(super) async fn restarts(&self, lab: &Lab, plan: &Plan) -> Result<()> {
        let mark = lab.journal.mark();
        self.node.ask(&json!({"target": "inspect"})).await?;
        agent_boots(lab, mark).await?;
        self.ironic.restart(lab, Stop::Kill, AWAY_FOR_LONG).await?;
        self.node.reaches("manageable", WITH_AGENT).await?;

        // Switch automatic cleaning off between these deployments.
        self.node.set(&[("/automated_clean", false.into())]).await?;
        self.node
            .change("provide", json!({}), "available", QUICK)
            .await?;
        for stop in [Stop::Terminate, Stop::Kill] {
            self.deploy_across(lab, plan, async |mark| {
                write_begins(lab, mark).await?;
                self.ironic.restart(lab, stop, AWAY).await
            })
            .await?;
            self.node
                .change("deleted", json!({}), "available", WITH_AGENT)
                .await?;
        }
        self.node.set(&[("/automated_clean", true.into())]).await?;
        let mark = lab.journal.mark();
        let proof = Proof::new(plan.host_name());
        self.node
            .begin_to_deploy(&self.instance_info, &plan.request(&proof))
            .await?;
        write_begins(lab, mark).await?;
        self.undeploy(lab).await
    }
}

/// Waits until the agent's ramdisk has started.
pub(super) async fn agent_boots(lab: &Lab, mark: Mark) -> Result<()> {
    lab.journal
        .wait_for("the agent", mark, BOOT, |event| {
            event.source == Source::Console && event.text.contains("init: landfall")
        })
        .await
        .map(drop)
}

/// Waits until part of the image is on the disk.
async fn write_begins(lab: &Lab, mark: Mark) -> Result<()> {
    lab.journal
        .wait_for("the write", mark, BOOT + DEPLOYMENT, |event| {
            event.source == Source::Console && event.text.contains("writing the image: ")
        })
        .await
        .map(drop)
}

impl Ironic {
    /// Stops Ironic and starts it again after `away`.
    pub(super) async fn restart(&self, lab: &Lab, how: Stop, away: Duration) -> Result<()> {
        lab.journal
            .record(Source::Machine, format!("Ironic ends: {how:?}"));
        self.services.stop_ironic(how).await?;
        sleep(away).await;
        lab.journal.record(Source::Machine, "Ironic starts again");
        self.services.start_ironic(lab).await
    }
}
