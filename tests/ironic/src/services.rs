//! Runs the services as processes: libvirtd, the Redfish emulator and Ironic.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use landfall_tests::journal::Source;
use landfall_tests::lab::Lab;
use landfall_tests::program;
use nix::sys::signal::{Signal, kill};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::bare_metal_api::BareMetalApi;
use super::configuration::{self, Configuration, HTPASSWD};
use super::environment;
use super::service::Service;
use crate::tls_front::Authority;

/// The time limit from SIGTERM to the end of Ironic. It takes 12 s on an idle machine.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// The name of Ironic's configuration file in the lab's folder.
const IRONIC_CONF: &str = "ironic.conf";

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
