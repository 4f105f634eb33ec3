//! Runs the services as processes: libvirtd, the Redfish emulator and Ironic.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Child;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::bare_metal_api::BareMetalApi;
use super::configuration::{self, Configuration, HTPASSWD};
use super::environment;
use crate::journal::{Journal, Source};
use crate::lab::Lab;
use crate::program;
use crate::tls_front::Authority;

/// The time limit from a service's start to its first answer. Ironic is the
/// slowest with 3 to 13 s. The rest is for busy machines.
const START_LIMIT: Duration = Duration::from_secs(120);

/// The time limit from SIGTERM to the end of Ironic: 12 s on a quiet machine.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// The name of Ironic's configuration file in the lab's folder.
const IRONIC_CONF: &str = "ironic.conf";

/// Pause between attempts to reach a service.
const START_PAUSE: Duration = Duration::from_millis(200);

/// A process and everything that it starts. Dropping it kills all of them.
pub(crate) struct Service {
    name: &'static str,
    process: Child,
}

pub(super) struct Services {
    pub(super) api: BareMetalApi,
    ironic: Mutex<Service>,
    _bmc: Service,
    _libvirt: Service,
}

impl Services {
    /// `authority` is the API's authority, if the API uses TLS.
    pub(super) async fn start(
        lab: &Lab,
        configuration: &Configuration,
        authority: Option<&Authority>,
    ) -> Result<Self> {
        for service in ["libvirt", "bmc", "ironic"] {
            // Remove the log of an earlier run, if any.
            let _ = std::fs::remove_file(lab.log_path(service));
        }
        let mut libvirt = Service::start(
            lab,
            "libvirt",
            "/usr/sbin/libvirtd",
            &["--timeout", "0", "--pid-file", "/run/libvirt/libvirtd.pid"],
            // libvirtd's messages about a machine without D-Bus and udev do not matter in a
            // test, so they stay out of the journal.
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
        write_configuration(lab, configuration)?;
        if configuration.tls {
            std::fs::write(lab.path(HTPASSWD), configuration::HTPASSWD_LINE)?;
        }
        let mut ironic = start_ironic(lab)?;
        let credentials = configuration.credentials();
        let api = BareMetalApi::new(&configuration.api_url(), authority, credentials)?;
        let bmc_api = BareMetalApi::new(&configuration.bmc_url(), None, None)?;
        bmc.answers(async || bmc_api.get("/redfish/v1/").await.map(drop))
            .await?;
        ironic
            .answers(async || api.get("/v1/nodes").await.map(drop))
            .await?;
        Ok(Self {
            api,
            ironic: Mutex::new(ironic),
            _bmc: bmc,
            _libvirt: libvirt,
        })
    }

    /// Stops Ironic as an upgrade or a crash would, and waits for its end.
    pub(super) async fn stop_ironic(&self, how: Stop) -> Result<()> {
        let mut ironic = self.ironic.lock().await;
        match how {
            Stop::Kill => ironic.kill().await?,
            Stop::Terminate => {
                kill(ironic.program()?, Signal::SIGTERM)?;
                timeout(STOP_LIMIT, ironic.process.wait())
                    .await
                    .context("waiting for the end of Ironic")??;
            }
        }
        Ok(())
    }

    /// Starts Ironic again after [`Self::stop_ironic`], and waits until it answers.
    pub(super) async fn start_ironic(&self, lab: &Lab) -> Result<()> {
        let mut ironic = self.ironic.lock().await;
        *ironic = start_ironic(lab)?;
        let api = &self.api;
        ironic
            .answers(async || api.get("/v1/nodes").await.map(drop))
            .await
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// SIGTERM, which lets Ironic finish its current work.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// Writes ironic.conf. A running Ironic does not read it.
pub(super) fn write_configuration(lab: &Lab, configuration: &Configuration) -> Result<()> {
    let text = configuration.ironic(lab)?;
    std::fs::write(lab.path(IRONIC_CONF), text).context("writing ironic.conf")
}

fn start_ironic(lab: &Lab) -> Result<Service> {
    Service::start(
        lab,
        "ironic",
        &tool("ironic"),
        &["--config-file", &text(&lab.path(IRONIC_CONF))],
        Some(Source::Ironic),
    )
}

/// The path of a program in the Python environment.
pub(crate) fn tool(name: &str) -> String {
    text(&environment().join("venv/bin").join(name))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Creates the storage pool in which the emulator stores inserted media.
async fn storage_pool(lab: &Lab) -> Result<()> {
    let folder = lab.path("media");
    std::fs::create_dir_all(&folder)?;
    let arguments = ["pool-create-as", "default", "dir", "--target"];
    let folder = text(&folder);
    virsh(&[&arguments[..], &[&folder]].concat())
        .await
        .map(drop)
}

/// Runs virsh on the lab's libvirt and returns its output.
pub(super) async fn virsh(arguments: &[&str]) -> Result<String> {
    let all = [&["-q", "-c", "qemu:///system"], arguments].concat();
    let output = program::run("virsh", &all).await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Service {
    /// Starts a service. Its output goes to a log file. If `source` is given, its
    /// output except debug messages goes to the journal too.
    pub(crate) fn start(
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
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        let mut command = program::bound_with_its_children(program);
        command.args(arguments);
        // Python's requests prefers these to the authority that Ironic sets for a session.
        for variable in ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"] {
            command.env_remove(variable);
        }
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

    /// Ends the service with SIGKILL. This kills the first process of its PID namespace,
    /// and the kernel kills the others with it.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }

    /// The process ID of the program itself. [`program::bound_with_its_children`]
    /// explains the two processes above it.
    pub(crate) fn program(&self) -> Result<Pid> {
        let outer = self.process.id().context("it has ended")?;
        let mut pid = i32::try_from(outer)?;
        for _ in ["the shell", "the program"] {
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
            let child = children.split_whitespace().next();
            pid = child.context("no child process")?.parse()?;
        }
        Ok(Pid::from_raw(pid))
    }

    /// Waits for the service's first answer.
    pub(crate) async fn answers(
        &mut self,
        mut asked: impl AsyncFnMut() -> Result<()>,
    ) -> Result<()> {
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
        // Omit the test's own requests for the node.
        let look = text.contains(" ironic.api ") && text.contains(" GET /v1/nodes");
        if !text.contains(" DEBUG ") && !look {
            journal.record(source, text);
        }
        line.push(b'\n');
        // Ignore an error: a full disk makes the test fail elsewhere, with a clearer
        // message.
        let _ = log.write_all(&line).await;
    }
    let _ = log.flush().await;
}
