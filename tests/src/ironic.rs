//! The real Ironic with a real Redfish emulator and libvirt below it, for one
//! test alone.
//!
//! Everything runs inside the test's network namespace and a mount namespace of
//! the test's thread, where libvirt's folders are folders of the test: two labs
//! on one machine know nothing of each other, and a libvirt of the machine's
//! own is not touched.

pub mod bare_metal_api;
pub mod complaints;
pub mod configuration;
pub mod guest;
pub mod keep;
pub mod life;
pub mod node;
pub mod plan;
mod private_folders;
mod services;

use std::path::PathBuf;

use anyhow::Result;

use crate::artifacts;
use crate::dhcp_server::{DhcpServer, NetworkBoot};
use crate::image_server::{self, ImageServer, ServedFile};
use crate::lab::{Family, Lab};
use bare_metal_api::BareMetalApi;
use configuration::Configuration;
use services::Services;

/// The test's Ironic, at work until it is dropped.
pub struct Ironic {
    /// The client of its API.
    pub api: BareMetalApi,
    /// What it and the hosts are served from.
    pub images: ImageServer,
    _dhcp: Option<DhcpServer>,
    _services: Services,
}

/// The kernel and the ramdisk as the image server has them.
pub const KERNEL: &str = "landfall/vmlinuz";
/// See [`KERNEL`].
pub const RAMDISK: &str = "landfall/initrd.img";

/// The folder which `tests/ironic/environment.sh` fills.
fn environment() -> PathBuf {
    artifacts::out_dir().join("ironic")
}

impl Ironic {
    /// Starts all services. `dhcp_for` is the MAC address of a host that shall
    /// get an address and iPXE's script by DHCP; without it nothing does.
    pub async fn start(
        lab: &Lab,
        configuration: &Configuration,
        files: Vec<ServedFile>,
        dhcp_for: Option<&str>,
    ) -> Result<Self> {
        private_folders::enter(lab)?;
        let dhcp = match dhcp_for {
            Some(mac) => {
                let boot = NetworkBoot {
                    ipxe_script: Some(image_server::url(Family::V4, "boot.ipxe")),
                    ..NetworkBoot::default()
                };
                Some(DhcpServer::start(lab, mac, &boot).await?)
            }
            None => None,
        };
        let mut all = vec![
            ServedFile::read(KERNEL, &artifacts::kernel()?)?,
            ServedFile::read(RAMDISK, &artifacts::ramdisk()?)?,
        ];
        all.extend(files);
        let images = ImageServer::start_over(lab, all, Some(configuration.http_root(lab))).await?;
        let services = Services::start(lab, configuration).await?;
        Ok(Self {
            api: services.api.clone(),
            images,
            _dhcp: dhcp,
            _services: services,
        })
    }
}
