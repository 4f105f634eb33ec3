//! Runs the Kubernetes controller with a real API server. The controller makes the ISO
//! of the node from the node's Secret
//! (`tests/kubernetes/src/bin/preprovisioned_host.rs`).

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use landfall_tests::artifacts;
use landfall_tests::journal::Source;
use landfall_tests::lab::{HOST_V4, Lab};
use landfall_tests::media;
use landfall_tests::program;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::time::timeout;

use super::plan::NODE;

const PORT: u16 = 8084;
/// The time limit from the start of the API server to the URL in the resource. It takes
/// 10 s on an idle machine.
const LIMIT: Duration = Duration::from_secs(180);

/// The processes of the API server and the controller. They end when this is dropped.
pub(super) struct Controller {
    _process: Child,
    /// The `imageUrl` in the resource of the node.
    pub(super) image_url: String,
}

impl Controller {
    /// Starts the API server, and the controller with an ISO that has these kernel
    /// arguments. Creates the resource of the node, and its Secret with this network
    /// data.
    pub(super) async fn start(
        lab: &Lab,
        kernel_arguments: &str,
        network_data: &Value,
    ) -> Result<Self> {
        let iso = media::iso(lab, kernel_arguments, &[]).await?;
        let network = lab.path("secret.json");
        std::fs::write(&network, network_data.to_string())?;
        let mut command = program::bound_with_its_children(
            artifacts::preprovisioned_host()?.display().to_string(),
        );
        let mut process = command
            .arg("--builder")
            .arg(artifacts::builder()?)
            .arg("--iso")
            .arg(iso)
            .args(["--listen", &format!("{HOST_V4}:{PORT}"), "--host", NODE])
            .arg("--network-data")
            .arg(network)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(lab.log_path("controller"))?)
            .spawn()
            .context("starting preprovisioned-host")?;
        let lines = process.stdout.take().context("no pipe from the program")?;
        let mut lines = BufReader::new(lines).lines();
        let line = timeout(LIMIT, lines.next_line());
        let Some(image_url) = line.await.context("waiting for the image's URL")?? else {
            bail!(
                "preprovisioned-host ended: see {}",
                lab.log_path("controller").display()
            );
        };
        lab.journal.record(
            Source::Machine,
            format!("the resource has the URL {image_url}"),
        );
        Ok(Self {
            _process: process,
            image_url,
        })
    }
}
