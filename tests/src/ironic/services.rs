//! The services as processes: libvirtd, the Redfish emulator, Ironic.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use super::bare_metal_api::BareMetalApi;
use super::configuration::Configuration;
use super::environment;
use crate::journal::{Journal, Source};
use crate::lab::Lab;
use crate::program;

/// From a service's start to its first answer: 3 to 13 s for Ironic, which is
/// the slowest; the rest is for busy machines.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Between two looks whether a service answers.
const START_PAUSE: Duration = Duration::from_millis(200);

/// A process and all that it starts, until it is dropped.
struct Service {
    name: &'static str,
    process: Child,
}

pub(super) struct Services {
    pub(super) api: BareMetalApi,
    _running: Vec<Service>,
}

impl Services {
    pub(super) async fn start(lab: &Lab, configuration: &Configuration) -> Result<Self> {
        for folder in configuration.folders(lab) {
            std::fs::create_dir_all(folder)?;
        }
        let mut libvirt = Service::start(
            lab,
            "libvirt",
            "/usr/sbin/libvirtd",
            &["--timeout", "0", "--pid-file", "/run/libvirt/libvirtd.pid"],
            // Nothing of what it says about a machine without D-Bus and udev is
            // of interest in a test.
            None,
        )?;
        let bmc_conf = lab.path("bmc.conf");
        std::fs::write(&bmc_conf, configuration.bmc(lab))?;
        libvirt.answers(async || storage_pool(lab).await).await?;

        let mut bmc = Service::start(
            lab,
            "bmc",
            &tool("sushy-emulator"),
            &["--config", &text(&bmc_conf)],
            None,
        )?;
        std::fs::copy(
            environment().join("schema.sqlite"),
            lab.path("ironic/ironic.sqlite"),
        )
        .context("copying the empty database (make ironic makes it)")?;
        let ironic_conf = lab.path("ironic.conf");
        std::fs::write(&ironic_conf, configuration.ironic(lab))?;
        let mut ironic = Service::start(
            lab,
            "ironic",
            &tool("ironic"),
            &["--config-file", &text(&ironic_conf)],
            Some(Source::Ironic),
        )?;
        let api = BareMetalApi::new(&configuration.api_url())?;
        let bmc_api = BareMetalApi::new(&configuration.bmc_url())?;
        bmc.answers(async || bmc_api.get("/redfish/v1/").await.map(drop))
            .await?;
        ironic
            .answers(async || api.get("/v1/nodes").await.map(drop))
            .await?;
        Ok(Self {
            api,
            _running: vec![ironic, bmc, libvirt],
        })
    }
}

/// A program of the Python environment.
fn tool(name: &str) -> String {
    text(&environment().join("venv/bin").join(name))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// The emulator puts inserted media into a storage pool of this name.
async fn storage_pool(lab: &Lab) -> Result<()> {
    let folder = lab.path("media");
    std::fs::create_dir_all(&folder)?;
    let arguments = ["pool-create-as", "default", "dir", "--target"];
    let folder = text(&folder);
    virsh(&[&arguments[..], &[&folder]].concat())
        .await
        .map(drop)
}

/// Asks the lab's libvirt for something.
pub(super) async fn virsh(arguments: &[&str]) -> Result<String> {
    let all = [&["-q", "-c", "qemu:///system"], arguments].concat();
    let output = program::run("virsh", &all).await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Service {
    /// Starts it. What it says goes to a log file, and, if it has a source,
    /// what is not for debugging goes to the journal, too.
    fn start(
        lab: &Lab,
        name: &'static str,
        program: &str,
        arguments: &[&str],
        source: Option<Source>,
    ) -> Result<Self> {
        let path = lab.log_path(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let log =
            std::fs::File::create(&path).with_context(|| format!("making {}", path.display()))?;
        let mut command = program::bound_with_its_children(program);
        command.args(arguments);
        let process = match source {
            None => command
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()
                .with_context(|| format!("starting {program}"))?,
            Some(source) => {
                let mut process = command
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .with_context(|| format!("starting {program}"))?;
                let lines = process.stderr.take().context("no pipe from the service")?;
                tokio::spawn(copy(
                    BufReader::new(lines),
                    File::from_std(log),
                    lab.journal.clone(),
                    source,
                ));
                process
            }
        };
        Ok(Self { name, process })
    }

    /// Waits for its first answer.
    async fn answers(&mut self, mut asked: impl AsyncFnMut() -> Result<()>) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let Err(error) = asked().await else {
                return Ok(());
            };
            if let Some(status) = self.process.try_wait()? {
                bail!("{} ended at its start: {status}", self.name);
            }
            if Instant::now() > deadline {
                return Err(error).with_context(|| format!("waiting for {}", self.name));
            }
            sleep(START_PAUSE).await;
        }
    }
}

async fn copy(
    lines: impl AsyncBufReadExt + Unpin,
    mut log: File,
    journal: Journal,
    source: Source,
) {
    let mut lines = lines.split(b'\n');
    while let Ok(Some(mut line)) = lines.next_segment().await {
        let text = String::from_utf8_lossy(&line).into_owned();
        // Nor is it worth a line that the test looks at the node.
        let look = text.contains(" ironic.api ") && text.contains(" GET /v1/nodes");
        if !text.contains(" DEBUG ") && !look {
            journal.record(source, text);
        }
        line.push(b'\n');
        // A full disk ends the test elsewhere, with its own words.
        let _ = log.write_all(&line).await;
    }
    let _ = log.flush().await;
}
