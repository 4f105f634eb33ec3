//! Describes one host to install: its machine, network, image and boot method.
//!
//! A [`Plan`] is one combination of these choices. [`Plan::site`] makes the parts for
//! it. A test then changes the parts that it tests, and starts all parts.

mod medium;

use std::path::PathBuf;

use anyhow::Result;
use axum::body::Bytes;
use landfall_initramfs::arch::Arch;
use serde_json::{Value, json};
use tokio::process::Child;

use crate::artifacts::{self, Packing};
use crate::conductor::script::{Finish, Image, Method, Script};
use crate::conductor::{self, Conductor};
use crate::config_drive::ConfigDrive;
use crate::dhcp_server::{self, DhcpServer, NetworkBoot};
use crate::embedded_hosts;
use crate::folder_server;
use crate::ignition::Proof;
use crate::image_server::{self, Behaviour, ImageServer, ServedFile};
use crate::lab::{Family, GUEST_V4, GUEST_V6, HOST_V4, HOST_V6, Lab};
use crate::old_disk::OldDisk;
use crate::ramdisk_parts::{Kernel, ModuleSet};
use crate::vm::{Boot, Bus, Disk, Firmware, Guest, Machine};

pub use crate::lab::MAC;

/// The RAM of every host in MiB: the minimum that the agent promises to work with.
pub const MEMORY_MIB: u32 = 512;

/// The size of a USB stick in MiB: large enough to qualify as a root disk.
const STICK_MIB: u64 = 8 * 1024;

/// How the machine boots the agent's ramdisk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// QEMU loads kernel and ramdisk, for tests that are not about booting.
    Direct,
    /// An ISO in the CD drive, as with Redfish virtual media.
    Iso,
    /// The ISO of [`Way::Iso`], on a USB stick.
    UsbStick,
    /// Network boot. BIOS: iPXE in the NIC's ROM, then its script and files over
    /// HTTP. UEFI: the firmware's PXE, then shim, GRUB and files over TFTP.
    Pxe,
    /// UEFI only: the firmware's PXE, then iPXE over TFTP, then everything else
    /// over HTTP.
    IpxeChained,
    /// UEFI only: the firmware's HTTP client, then our GRUB and files over HTTP.
    Http,
    /// UEFI only: the firmware's HTTP client fetches a single EFI file with kernel,
    /// ramdisk and arguments.
    Uki,
    /// UEFI only: the firmware's HTTP client fetches the ISO, and makes a disk of it.
    HttpIso,
}

/// How the host gets its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// IPv4 address from `ip=`.
    StaticV4,
    /// IPv6 address from `ip=`, without IPv4.
    StaticV6,
    /// IPv4 address from `ip=`, on a bond with the NIC as its port. A VLAN on the bond
    /// has only a link-local IPv6 address.
    Bond,
    /// IPv4 from a plan embedded in the ramdisk: the ramdisk has the plans of many
    /// hosts, made from a folder of files, and the host selects its own by MAC
    /// address. Not with [`Way::Direct`], which uses a ready-made ramdisk.
    HostsFolder,
    /// Like [`Network::HostsFolder`], with plans made from an agent-config.yaml.
    AgentConfig,
    /// DHCPv4.
    Dhcp,
    /// IPv4 from these kernel arguments only: no `BOOTIF=` is added.
    Given(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deploy {
    /// The step `install_coreos`, with the Ignition config.
    InstallCoreos,
    /// The step `write_image`, with the Ignition config on a config drive.
    WriteImage,
}

/// One combination of choices.
#[derive(Debug, Clone)]
pub struct Plan {
    pub firmware: Firmware,
    /// Boot method.
    pub way: Way,
    /// The kernel of the ramdisk.
    pub kernel: Kernel,
    /// The drivers of the ramdisk.
    pub module_set: ModuleSet,
    /// Source of the address.
    pub network: Network,
    /// Compression of the image.
    pub packing: Packing,
    pub deploy: Deploy,
    pub bus: Bus,
    /// The size of the disk in MiB. The default rule for root disks needs at least 4
    /// GiB.
    pub disk_mib: u64,
    /// Content of the disk before the installation.
    pub disk_before: OldDisk,
    /// The command that ends the deployment.
    pub finish: Finish,
    /// Further kernel arguments of the ramdisk.
    pub more_arguments: &'static str,
    /// Kernel arguments that request an installation. They replace the arguments that
    /// name the provisioning service.
    pub unattended: Option<String>,
    /// With [`Network::Dhcp`]: seconds until the lease is renewed (T1).
    pub renew_seconds: Option<u32>,
    /// The image is on the ISO: no server has it, and the node names no image. Needs
    /// [`Kernel::Generic`], which has drivers for the drive that contains the ISO.
    pub image_on_medium: bool,
    /// With [`Way::Pxe`]: GRUB fetches kernel and ramdisk over HTTP.
    pub grub_over_http: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            firmware: Firmware::Bios,
            way: Way::Direct,
            kernel: Kernel::Cloud,
            module_set: ModuleSet::Vm,
            network: Network::StaticV4,
            packing: Packing::Gz,
            deploy: Deploy::InstallCoreos,
            bus: Bus::VirtioBlk,
            disk_mib: 5 * 1024,
            disk_before: OldDisk::Blank,
            finish: Finish::PowerOff,
            more_arguments: "",
            unattended: None,
            renew_seconds: None,
            image_on_medium: false,
            grub_over_http: false,
        }
    }
}

/// The parts for one combination, not yet started.
#[derive(Clone)]
pub struct Site {
    pub machine: Machine,
    /// What the conductor does.
    pub script: Script,
    /// The files of the HTTP server. The first is the image, if a server has it.
    pub files: Vec<ServedFile>,
    /// The Ignition config, and the console line that proves that it was applied.
    pub proof: Proof,
    /// Only with [`Deploy::WriteImage`].
    pub config_drive: Option<ConfigDrive>,
    dhcp: Option<NetworkBoot>,
    /// The folder that [`folder_server`] serves to the boot loader.
    boot_files: Option<PathBuf>,
}

/// The services of a site. The host is not part of them.
pub struct Services {
    pub conductor: Conductor,
    pub images: ImageServer,
    _dhcp: Option<DhcpServer>,
    _boot_files: Option<Child>,
}

/// A permanent kernel argument that the deployment's meta data request.
pub const PERMANENT_ARGUMENT: &str = "landfall.test=kept";

/// The host name in the deployment's meta data.
pub const META_DATA_NAME: &str = "node-1.example.org";

/// Kernel arguments of every test host: the serial console, enough log messages to
/// see when the kernel started, and `no_timer_check`. Without `no_timer_check` an
/// emulated machine on a loaded host can die in the kernel's check of its timer.
pub const TEST_ARGUMENTS: &str =
    "console=tty0 console=ttyS0,115200n8 no_timer_check earlyprintk=serial,ttyS0,115200 loglevel=6";

/// Like [`TEST_ARGUMENTS`], for hosts with aarch64. The firmware's tables name the port
/// for earlycon.
const AARCH64_ARGUMENTS: &str = "console=tty0 console=ttyAMA0,115200n8 earlycon loglevel=6";

/// The number of processors of a test host. The fifteen tests of images take a fifth
/// more CPU time with two processors than with one (413 s and 341 s). So only hosts
/// that boot through a firmware and a boot loader have two.
fn processors(boot: &Boot) -> u8 {
    match boot {
        Boot::Direct { .. } => 1,
        _ => 2,
    }
}

impl Plan {
    fn family(&self) -> Family {
        match self.network {
            Network::StaticV6 => Family::V6,
            Network::StaticV4
            | Network::Bond
            | Network::HostsFolder
            | Network::AgentConfig
            | Network::Dhcp
            | Network::Given(_) => Family::V4,
        }
    }

    /// The kernel arguments of the ramdisk.
    #[must_use]
    pub fn kernel_arguments(&self) -> String {
        let mut ip = match self.network {
            Network::StaticV4 => format!("ip={GUEST_V4}::{HOST_V4}:255.255.255.0:::none"),
            Network::StaticV6 => format!("ip=[{GUEST_V6}]::[{HOST_V6}]:64:::none"),
            Network::Bond => format!(
                "bond=bond0:{}:mode=active-backup vlan=bond0.7:bond0 ip=bond0.7:link6 \
                 ip={GUEST_V4}::{HOST_V4}:255.255.255.0::bond0:none",
                MAC.replace(':', "-")
            ),
            // A boot menu for many hosts contains `ip=dhcp` for the hosts without a
            // plan. So hosts with a plan get this argument, too.
            Network::HostsFolder | Network::AgentConfig | Network::Dhcp => "ip=dhcp".to_owned(),
            Network::Given(arguments) => arguments.to_owned(),
        };
        // The menus of the network boot tree add `BOOTIF=` themselves.
        let has_boot_nic = matches!(self.network, Network::Given(_))
            || matches!(self.way, Way::Pxe | Way::IpxeChained | Way::Http);
        if !has_boot_nic {
            ip += &format!(" BOOTIF=01-{}", MAC.replace(':', "-"));
        }
        let order = self.unattended.clone().unwrap_or_else(|| {
            let api = self.family().url(conductor::PORT);
            format!("ipa-api-url={api} ipa-inspection-callback-url={api}/v1/continue_inspection")
        });
        let common = match artifacts::arch() {
            Arch::X86_64 => TEST_ARGUMENTS,
            Arch::Aarch64 => AARCH64_ARGUMENTS,
        };
        let mut arguments = format!("{common} {ip} {order}");
        if !self.more_arguments.is_empty() {
            arguments.push(' ');
            arguments.push_str(self.more_arguments);
        }
        arguments
    }

    /// Makes the parts: boot medium, disk and script.
    pub async fn site(&self, lab: &Lab) -> Result<Site> {
        let disk = lab.path("disk.raw");
        self.disk_before.make(&disk, self.disk_mib).await?;
        let name = self.packing.file_name();
        let mut files = vec![ServedFile {
            name: name.to_owned(),
            content: Bytes::from(std::fs::read(artifacts::coreos_image(self.packing)?)?),
            behaviour: Behaviour::default(),
        }];
        let mut url = image_server::url(self.family(), name);
        if self.image_on_medium {
            (files, url) = (Vec::new(), String::new());
        }
        let medium = self.medium(lab).await?;
        files.extend(medium.files);
        // A host name from the network overrides the name in the meta data.
        let proof = Proof::new(match self.network {
            Network::Dhcp => dhcp_server::GIVEN_NAME,
            Network::HostsFolder | Network::AgentConfig => embedded_hosts::NAME,
            _ => META_DATA_NAME,
        });
        let config_drive = match self.deploy {
            Deploy::InstallCoreos => None,
            Deploy::WriteImage => Some(ConfigDrive::with_user_data(lab, &proof.config()).await?),
        };
        Ok(Site {
            machine: Machine {
                firmware: self.firmware,
                processors: processors(&medium.boot),
                memory_mib: MEMORY_MIB,
                disks: vec![Disk {
                    path: disk,
                    bus: self.bus,
                    unplugged: false,
                    fault: None,
                }],
                nics: vec![MAC.to_owned()],
                first_tap: 0,
                cords: Vec::new(),
                data_medium: None,
                extras: Vec::new(),
                late_nic: false,
                boot: medium.boot,
                variables: lab.path("uefi-variables"),
                error_records: None,
            },
            script: Script {
                macs: vec![MAC.to_owned()],
                root_device: None,
                automated_clean: false,
                uefi: self.firmware == Firmware::Uefi,
                image: Image {
                    url,
                    hash_algorithm: "sha256",
                    hash: artifacts::coreos_image_sha256(self.packing)?,
                    authorization: None,
                },
                method: method(config_drive.as_ref(), &proof)?,
                finish: self.finish,
                hold: false,
                heartbeat_timeout: conductor::HEARTBEAT_TIMEOUT,
                poll_while_held: false,
                erasure_concurrency: 4,
                target_raid_config: None,
            },
            files,
            proof,
            config_drive,
            boot_files: medium.boot_files,
            dhcp: match medium.network_boot {
                Some(boot) => Some(boot),
                None => (self.network == Network::Dhcp).then(|| NetworkBoot {
                    renew_seconds: self.renew_seconds,
                    ..NetworkBoot::default()
                }),
            },
        })
    }
}

/// A deployment's meta data, with the keys that metal3 sets for a host.
#[must_use]
pub fn meta_data() -> Value {
    json!({
        "uuid": "b9c9c6a4-0f5b-4c7c-9d2d-3f6c2c0f8a11",
        "metal3-namespace": "hosts",
        "metal3-name": "node-1",
        "local-hostname": META_DATA_NAME,
        "local_hostname": META_DATA_NAME,
        "name": META_DATA_NAME,
        "coreos_append_karg": [PERMANENT_ARGUMENT],
    })
}

/// The deploy method: `write_image` if there is a config drive, otherwise
/// `install_coreos`.
fn method(config_drive: Option<&ConfigDrive>, proof: &Proof) -> Result<Method> {
    Ok(match config_drive {
        Some(drive) => Method::WriteImage {
            config_drive: Some(drive.encoded()?),
        },
        None => Method::InstallCoreos {
            meta_data: meta_data(),
            ignition: proof.config(),
        },
    })
}

impl Services {
    /// Stops all services, so that the site can start them with another script.
    pub async fn stop(self) {
        self.conductor.stop().await;
        self.images.stop().await;
    }
}

impl Site {
    /// Starts all services.
    pub async fn serve(&self, lab: &Lab) -> Result<Services> {
        Ok(Services {
            _dhcp: self.serve_addresses(lab).await?,
            _boot_files: (self.boot_files.as_deref())
                .map(|folder| folder_server::start(folder, folder_server::PORT))
                .transpose()?,
            images: ImageServer::start(lab, self.files.clone()).await?,
            conductor: Conductor::start(lab, self.script.clone()).await?,
        })
    }

    /// Starts only DHCP and TFTP, if the host needs them.
    pub async fn serve_addresses(&self, lab: &Lab) -> Result<Option<DhcpServer>> {
        match &self.dhcp {
            Some(boot) => Ok(Some(DhcpServer::start(lab, MAC, boot).await?)),
            None => Ok(None),
        }
    }

    pub async fn power_on(&self, lab: &Lab) -> Result<Guest> {
        Guest::start(lab, &self.machine).await
    }

    /// Switches the host on without network and media, as after the boot medium is
    /// ejected.
    pub async fn power_on_from_disk(&self, lab: &Lab) -> Result<Guest> {
        let machine = Machine {
            boot: Boot::Disk,
            nics: Vec::new(),
            cords: Vec::new(),
            data_medium: None,
            extras: Vec::new(),
            ..self.machine.clone()
        };
        Guest::start(lab, &machine).await
    }
}
