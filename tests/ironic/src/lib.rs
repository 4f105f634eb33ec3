//! Starts the real Ironic with a real Redfish emulator and libvirt, for one test or
//! lab.
//!
//! Everything runs in the test's network namespace and in a mount namespace of the
//! test's thread, in which libvirt's folders belong to the test. So two labs on one
//! machine affect neither each other nor the machine's own libvirt.
//!
//! [`scenario`] runs one host under this Ironic, [`endurance`] many agents at once.

#![allow(clippy::print_stderr)]

pub mod bare_metal_api;
mod ca_bundle;
pub mod complaints;
pub mod configuration;
mod controller;
pub mod documented_arguments;
pub mod endurance;
pub mod guest;
pub mod keep;
pub mod node;
mod operations;
pub mod plan;
mod ports;
mod private_folders;
mod refusals;
mod registry;
mod registry_tokens;
pub mod replacement;
mod rescue_login;
mod restarts;
pub mod scenario;
pub(crate) mod service;
pub(crate) mod services;
mod tls_front;

use std::path::PathBuf;

use anyhow::Result;
use landfall_tests::artifacts;
use landfall_tests::dhcp_server::{DhcpServer, NetworkBoot};
use landfall_tests::image_server::{ImageServer, ServedFile};
use landfall_tests::lab::Lab;

use crate::tls_front::{Authority, TlsFront};
use bare_metal_api::BareMetalApi;
use configuration::Configuration;
use registry::Registry;
use services::Services;

/// The test's Ironic. It runs until it is dropped.
pub struct Ironic {
    pub api: BareMetalApi,
    /// The image server for Ironic and the hosts.
    pub images: ImageServer,
    services: Services,
    registry: Option<Registry>,
    _dhcp: Option<DhcpServer>,
    _fronts: Vec<TlsFront>,
}

/// The path of the kernel on the image server.
pub const KERNEL: &str = "landfall/vmlinuz";
/// The path of the ramdisk on the image server.
pub const RAMDISK: &str = "landfall/initrd.img";
/// The path of the ramdisk with the rescue layer on the image server.
pub const RESCUE_RAMDISK: &str = "landfall/rescue.img";

/// The path of the EFI system partition image with the boot loaders on the image
/// server.
pub const BOOT_LOADERS: &str = "landfall/esp.img";

/// The folder that `tests/ironic/environment.sh` fills. To use another release of
/// Ironic than the pinned one, set `LANDFALL_IRONIC` to its version.
pub(crate) fn environment() -> PathBuf {
    let out = artifacts::out_dir();
    match std::env::var("LANDFALL_IRONIC") {
        Ok(version) if !version.is_empty() => out.join(format!("ironic-{version}")),
        _ => out.join("ironic"),
    }
}

/// The Python with Ironic's packages.
#[must_use]
pub fn python() -> PathBuf {
    environment().join("venv/bin/python3")
}

impl Ironic {
    /// Starts all services. `dhcp_for` is the MAC address of a host and its DHCP
    /// options. Without it there is no DHCP server.
    pub async fn start(
        lab: &Lab,
        configuration: &Configuration,
        files: Vec<ServedFile>,
        dhcp_for: Option<(&str, NetworkBoot)>,
    ) -> Result<Self> {
        private_folders::enter(lab)?;
        for folder in configuration.folders(lab) {
            std::fs::create_dir_all(folder)?;
        }
        let dhcp = match dhcp_for {
            Some((mac, boot)) => Some(DhcpServer::start(lab, mac, &boot).await?),
            None => None,
        };
        let mut all = vec![
            ServedFile::read(KERNEL, &artifacts::kernel()?)?,
            ServedFile::read(RAMDISK, &artifacts::ramdisk()?)?,
        ];
        all.extend(files);
        let images = ImageServer::start_over(lab, all, Some(configuration.http_root(lab))).await?;
        let mut fronts = Vec::new();
        let mut authority = None;
        if configuration.tls {
            let made = authority.insert(Authority::new(lab)?);
            for (port, server) in configuration.tls_fronts() {
                fronts.push(TlsFront::start(made, port, server).await?);
            }
        }
        if let Some(authority) = &authority
            && configuration.ca_bundle
        {
            ca_bundle::write(lab, &configuration.http_root(lab), &authority.file).await?;
        }
        let registry = match &authority {
            Some(authority) if configuration.registry => {
                let blobs = configuration.http_root(lab);
                Some(Registry::start(lab, authority, &blobs).await?)
            }
            _ => None,
        };
        let services = Services::start(lab, configuration, authority.as_ref()).await?;
        Ok(Self {
            api: services.api.clone(),
            images,
            services,
            registry,
            _dhcp: dhcp,
            _fronts: fronts,
        })
    }
}
