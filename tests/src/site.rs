//! One host to install: which machine, which network, which image, which way.
//!
//! A [`Plan`] is a point in the table of combinations. [`Plan::site`] makes the
//! parts for it; a test changes what it is about and starts them.

use std::path::PathBuf;

use anyhow::Result;
use axum::body::Bytes;
use serde_json::{Value, json};

use crate::artifacts::{self, Packing};
use crate::conductor::script::{Finish, Image, Method, Script};
use crate::conductor::{self, Conductor};
use crate::config_drive::ConfigDrive;
use crate::dhcp_server::{self, DhcpServer, NetworkBoot, TftpFile};
use crate::embedded_hosts;
use crate::ignition::Proof;
use crate::image_server::{self, Behaviour, ImageServer, ServedFile};
use crate::lab::{Family, GUEST_V4, GUEST_V6, HOST_V4, HOST_V6, Lab};
use crate::media;
use crate::old_disk::OldDisk;
use crate::vm::{Boot, Bus, Disk, Firmware, Guest, Machine};

/// The MAC address of the host's first NIC.
pub const MAC: &str = "52:54:00:c0:ff:01";

/// The RAM of every host: what the agent promises to get along with.
pub const MEMORY_MIB: u32 = 512;

/// The size of a USB stick: large enough to be taken for a root disk.
const STICK_MIB: u64 = 8 * 1024;

/// How the agent's ramdisk gets into the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Loaded by QEMU: for tests that are not about booting.
    Direct,
    /// ISO in the CD drive: Redfish virtual media.
    Iso,
    /// The same ISO as a USB stick.
    UsbStick,
    /// Network. BIOS: iPXE in the NIC's ROM, script and files over HTTP. UEFI:
    /// the firmware's PXE, then shim, GRUB and files over TFTP.
    Pxe,
    /// UEFI only: the firmware's PXE, then iPXE by TFTP, the rest over HTTP.
    IpxeChained,
}

/// How the host gets its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// From `ip=`, IPv4.
    StaticV4,
    /// From `ip=`, IPv6 and no IPv4 at all.
    StaticV6,
    /// From `ip=`, IPv4, on a bond with the NIC as its port and a VLAN on it.
    Bond,
    /// IPv4 from the plan for its MAC address among those of many hosts that
    /// the ramdisk brings, made of a folder of files. Not with [`Way::Direct`],
    /// whose ramdisk is ready.
    HostsFolder,
    /// The same, made of an agent-config.yaml.
    AgentConfig,
    /// DHCPv4.
    Dhcp,
    /// IPv4 from these arguments, which leave nothing out.
    Given(&'static str),
}

/// The deploy method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deploy {
    /// `install_coreos` with the Ignition config.
    InstallCoreos,
    /// `write_image`, with the Ignition config on a config drive.
    WriteImage,
}

/// A combination.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Firmware.
    pub firmware: Firmware,
    /// Boot medium.
    pub way: Way,
    /// Address.
    pub network: Network,
    /// Form of the image.
    pub packing: Packing,
    /// Deploy method.
    pub deploy: Deploy,
    /// Disk controller.
    pub bus: Bus,
    /// Disk size; the default rule for root disks wants 4 GiB at least.
    pub disk_mib: u64,
    /// What is on the disk.
    pub disk_before: OldDisk,
    /// Last command.
    pub finish: Finish,
    /// Kernel arguments of the ramdisk beside the usual ones.
    pub more_arguments: &'static str,
    /// What the boot line says is to be installed, in the place of the service
    /// that would say so: it is not named then.
    pub unattended: Option<String>,
    /// With [`Network::Dhcp`]: when the lease is to be renewed.
    pub renew_seconds: Option<u32>,
    /// The image is on the ISO: no server has it, and the node names none.
    pub image_on_medium: bool,
    /// With [`Way::Pxe`]: GRUB fetches kernel and ramdisk by HTTP.
    pub grub_over_http: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            firmware: Firmware::Bios,
            way: Way::Direct,
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
    /// The host.
    pub machine: Machine,
    /// What the conductor will do.
    pub script: Script,
    /// What the HTTP server will offer; the image is the first.
    pub files: Vec<ServedFile>,
    /// The Ignition config and how to recognise that it was applied.
    pub proof: Proof,
    /// The config drive, with [`Deploy::WriteImage`].
    pub config_drive: Option<ConfigDrive>,
    dhcp: Option<NetworkBoot>,
}

/// The parts of a site that serve; the host comes and goes.
pub struct Services {
    /// The conductor.
    pub conductor: Conductor,
    /// The HTTP server.
    pub images: ImageServer,
    _dhcp: Option<DhcpServer>,
}

/// A permanent kernel argument which the deployment's meta data ask for.
pub const PERMANENT_ARGUMENT: &str = "landfall.test=kept";

/// What the deployment's meta data call the host.
pub const META_DATA_NAME: &str = "node-1.example.org";

/// Kernel arguments of every test host: the console, a kernel clock that stands
/// a loaded host (without `no_timer_check` an emulated machine can die in the
/// check of its timer), and enough log to see when the kernel began.
pub const TEST_ARGUMENTS: &str =
    "console=tty0 console=ttyS0,115200n8 no_timer_check earlyprintk=serial,ttyS0,115200 loglevel=6";

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
            // As it would stand in a menu that is for hosts without a plan, too.
            Network::HostsFolder | Network::AgentConfig | Network::Dhcp => "ip=dhcp".to_owned(),
            Network::Given(arguments) => arguments.to_owned(),
        };
        // The menus of the network boot tree say it themselves.
        let has_boot_nic = matches!(self.network, Network::Given(_))
            || matches!(self.way, Way::Pxe | Way::IpxeChained);
        if !has_boot_nic {
            ip += &format!(" BOOTIF=01-{}", MAC.replace(':', "-"));
        }
        let order = self.unattended.clone().unwrap_or_else(|| {
            let api = self.family().url(conductor::PORT);
            format!("ipa-api-url={api} ipa-inspection-callback-url={api}/v1/continue_inspection")
        });
        let mut arguments = format!("{TEST_ARGUMENTS} {ip} {order}");
        if !self.more_arguments.is_empty() {
            arguments.push(' ');
            arguments.push_str(self.more_arguments);
        }
        arguments
    }

    /// Makes the parts: media, the disk, the script.
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
        // A name that the network gave goes before the one in the meta data.
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
            },
            files,
            proof,
            config_drive,
            dhcp: match medium.network_boot {
                Some(boot) => Some(boot),
                None => (self.network == Network::Dhcp).then(|| NetworkBoot {
                    renew_seconds: self.renew_seconds,
                    ..NetworkBoot::default()
                }),
            },
        })
    }

    async fn medium(&self, lab: &Lab) -> Result<Medium> {
        let arguments = self.kernel_arguments();
        let mut options = match self.network {
            Network::HostsFolder => embedded_hosts::folder(lab)?,
            Network::AgentConfig => embedded_hosts::agent_config(lab)?,
            _ => Vec::new(),
        };
        if self.image_on_medium {
            options.extend([
                "--coreos-image".to_owned(),
                artifacts::coreos_image(self.packing)?.display().to_string(),
                "--coreos-image-digest".to_owned(),
                format!("sha256:{}", artifacts::coreos_image_sha256(self.packing)?),
            ]);
        }
        let boot = match self.way {
            Way::Direct => Boot::Direct {
                kernel: artifacts::kernel()?,
                ramdisk: artifacts::ramdisk()?,
                arguments,
            },
            Way::Iso => Boot::Iso(self.iso(lab, &arguments, &options).await?),
            Way::UsbStick => {
                let stick = self.iso(lab, &arguments, &options).await?;
                // Larger than what was written to it, as sticks are.
                let file = std::fs::OpenOptions::new().write(true).open(&stick)?;
                file.set_len(STICK_MIB << 20)?;
                Boot::UsbStick(stick)
            }
            Way::Pxe | Way::IpxeChained => {
                return self.network_medium(lab, &arguments, &options).await;
            }
        };
        Ok(Medium {
            boot,
            files: Vec::new(),
            network_boot: None,
        })
    }

    async fn iso(&self, lab: &Lab, arguments: &str, options: &[String]) -> Result<PathBuf> {
        if self.image_on_medium {
            media::iso_that_sees_itself(lab, arguments, options).await
        } else {
            media::iso(lab, arguments, options).await
        }
    }

    async fn network_medium(
        &self,
        lab: &Lab,
        arguments: &str,
        options: &[String],
    ) -> Result<Medium> {
        // Always IPv4: QEMU's iPXE ROMs are built without IPv6.
        let base = Family::V4.url(image_server::PORT);
        let mut options = options.to_vec();
        if self.grub_over_http {
            options.extend(["--base-url".to_owned(), base.clone()]);
        }
        let root = media::network_tree(lab, arguments, &options).await?;
        let files = media::served(&root)?;
        let script = Some(format!("{base}/boot.ipxe"));
        let (boot, network_boot) = match (self.way, self.firmware) {
            (Way::IpxeChained, _) => {
                let root = media::ipxe_folder(lab)?;
                let efi_file = Some(TftpFile {
                    root,
                    file: media::IPXE_FILE,
                });
                let network_boot = NetworkBoot {
                    efi_file,
                    ipxe_script: script,
                    ..NetworkBoot::default()
                };
                (Boot::FirmwarePxe, network_boot)
            }
            (_, Firmware::Uefi) => {
                let efi_file = Some(TftpFile {
                    root,
                    file: "shimx64.efi",
                });
                let network_boot = NetworkBoot {
                    efi_file,
                    ..NetworkBoot::default()
                };
                (Boot::FirmwarePxe, network_boot)
            }
            (_, Firmware::Bios) => {
                let network_boot = NetworkBoot {
                    ipxe_script: script,
                    ..NetworkBoot::default()
                };
                (Boot::IpxeRom, network_boot)
            }
        };
        Ok(Medium {
            boot,
            files,
            network_boot: Some(network_boot),
        })
    }
}

/// How the ramdisk gets into the machine, with what has to be served for it.
struct Medium {
    boot: Boot,
    files: Vec<ServedFile>,
    network_boot: Option<NetworkBoot>,
}

/// A deployment's meta data: the keys that metal3 fills in for a host.
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

/// The deploy method: with a config drive it is `write_image`.
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

impl Site {
    /// Starts everything but the host.
    pub async fn serve(&self, lab: &Lab) -> Result<Services> {
        Ok(Services {
            _dhcp: self.serve_addresses(lab).await?,
            images: ImageServer::start(lab, self.files.clone()).await?,
            conductor: Conductor::start(lab, self.script.clone()).await?,
        })
    }

    /// Starts DHCP and TFTP alone, if the host needs them.
    pub async fn serve_addresses(&self, lab: &Lab) -> Result<Option<DhcpServer>> {
        match &self.dhcp {
            Some(boot) => Ok(Some(DhcpServer::start(lab, MAC, boot).await?)),
            None => Ok(None),
        }
    }

    /// Switches the host on.
    pub async fn power_on(&self, lab: &Lab) -> Result<Guest> {
        Guest::start(lab, &self.machine).await
    }

    /// Switches it on with nothing but its disk, as after the medium is ejected.
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
