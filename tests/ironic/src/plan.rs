//! The plan of a scenario: one combination of an operator's choices, and the
//! documents that Ironic gets for it.

use anyhow::Result;
use landfall_tests::artifacts::{self, Packing};
use landfall_tests::dhcp_server::{self, NetworkBoot, TftpFile};
use landfall_tests::ignition::Proof;
use landfall_tests::image_server::{self, ServedFile};
use landfall_tests::lab::{Family, GUEST_V4, HOST_V4, Lab};
use landfall_tests::media;
use landfall_tests::program;
use landfall_tests::site::{MAC, META_DATA_NAME, TEST_ARGUMENTS, meta_data};
use landfall_tests::vm::Firmware;
use serde_json::{Value, json};

use super::configuration::{BootFiles, Configuration};
use super::guest::{Guest, NetworkProtocol};
use super::node::Enrolment;
use super::{
    BOOT_LOADERS, KERNEL, RAMDISK, RESCUE_RAMDISK, registry, registry_tokens, replacement,
};

/// The node's name in Ironic and in libvirt.
pub const NODE: &str = "node-1";

/// How the host boots the ramdisk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boot {
    /// An ISO that Ironic builds, as Redfish virtual media.
    VirtualMedia,
    /// The builder's ISO as `deploy_iso`, as in OpenShift.
    OwnIso,
    /// The ISO that the Kubernetes controller makes from the node's Secret.
    ControllerIso,
    /// iPXE, with the files that Ironic writes.
    Ipxe,
    /// iPXE, which the UEFI firmware loads by HTTP boot.
    HttpIpxe,
    /// shim and GRUB over TFTP, with the files that Ironic writes.
    Pxe,
}

/// What happens to the node after its enrolment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Story {
    /// Inspect, clean, deploy, undeploy, deploy again.
    TwoDeployments,
    /// Inspect, clean, deploy.
    OneDeployment,
    /// Adopt, abort a cleaning, clean with a runbook, service: see `operations.rs`.
    Operations,
    /// Deploy while the conductor is away: see `restarts.rs`.
    Restarts,
    /// Ironic refuses the inventory, then the agent: see `refusals.rs`.
    Refusals,
    /// Replace another ramdisk by ours, and switch back: see `replacement.rs`.
    Replacement,
}

/// How the image gets onto the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deploy {
    /// Deploy interface `custom-agent`, step `install_coreos`.
    InstallCoreos,
    /// Deploy interface `direct` with a raw image, which the agent streams.
    WriteRaw,
    /// Deploy interface `direct` with a qcow2 image.
    WriteQcow2,
}

/// The source of the ramdisk's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    Dhcp,
    /// The boot arguments of the builder's ISO, in a network without DHCP.
    KernelArguments,
    /// The node's `network_data`, in a network without DHCP.
    NetworkData,
    /// The Secret of the node in Kubernetes, in a network without DHCP.
    Secret,
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub firmware: Firmware,
    pub boot: Boot,
    pub deploy: Deploy,
    pub addresses: Addresses,
    pub story: Story,
    /// Deploy a partition image first. The agent must refuse it.
    pub partition_image: bool,
    /// Rescue the node at the end, and return it to service.
    pub rescue: bool,
    pub configuration: Configuration,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            firmware: Firmware::Uefi,
            boot: Boot::VirtualMedia,
            deploy: Deploy::InstallCoreos,
            addresses: Addresses::Dhcp,
            story: Story::TwoDeployments,
            partition_image: false,
            rescue: false,
            configuration: Configuration::default(),
        }
    }
}

/// The guest's address as OpenStack network data.
pub(super) fn network_data() -> Value {
    json!({
        "links": [{"id": "port-1", "type": "phy", "ethernet_mac_address": MAC, "mtu": 1500}],
        "networks": [{
            "id": "network-1", "network_id": "lab", "type": "ipv4", "link": "port-1",
            "ip_address": GUEST_V4, "netmask": "255.255.255.0",
            "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": HOST_V4}],
        }],
        "services": [{"type": "dns", "address": HOST_V4}],
    })
}

/// The path of the builder's ISO on the image server.
const OWN_ISO: &str = "landfall/landfall.iso";

fn url(name: &str) -> String {
    image_server::url(Family::V4, name)
}

impl Plan {
    pub(super) fn guest(&self, lab: &Lab) -> Guest {
        Guest {
            name: NODE.to_owned(),
            mac: MAC.to_owned(),
            firmware: self.firmware,
            disk: lab.path("disk.raw"),
            network_boot: match self.boot {
                Boot::HttpIpxe => Some(NetworkProtocol::Http),
                Boot::Pxe => Some(NetworkProtocol::Tftp),
                Boot::VirtualMedia | Boot::OwnIso | Boot::ControllerIso | Boot::Ipxe => None,
            },
        }
    }

    fn packing(&self) -> Packing {
        match self.deploy {
            Deploy::InstallCoreos => Packing::Gz,
            Deploy::WriteRaw | Deploy::WriteQcow2 => Packing::Raw,
        }
    }

    /// The DHCP options for the host.
    pub(super) fn network_boot(&self, lab: &Lab) -> NetworkBoot {
        NetworkBoot {
            ipxe_script: Some(url("boot.ipxe")),
            http_file: (self.boot == Boot::HttpIpxe).then(|| url(media::IPXE_FILE)),
            efi_file: (self.boot == Boot::Pxe).then(|| TftpFile {
                root: self.configuration.tftp_root(lab),
                file: "bootx64.efi".to_owned(),
            }),
            ..NetworkBoot::default()
        }
    }

    /// The files that the image server needs. The first is the image.
    pub(super) async fn files(&self, lab: &Lab) -> Result<Vec<ServedFile>> {
        let mut files = vec![self.image(lab).await?];
        if self.boot == Boot::OwnIso {
            let iso = media::iso(lab, &self.own_iso_arguments(), &[]).await?;
            files.push(ServedFile::read(OWN_ISO, &iso)?);
        }
        if self.rescue {
            let ramdisk = artifacts::rescue_ramdisk()?;
            files.push(ServedFile::read(RESCUE_RAMDISK, &ramdisk)?);
        }
        if self.configuration.boot_files == BootFiles::ByArchitecture {
            let esp = super::environment().join("esp.img");
            files.push(ServedFile::read(BOOT_LOADERS, &esp)?);
        }
        if self.story == Story::Replacement {
            files.extend(replacement::files(lab).await?);
        }
        if self.story == Story::Restarts {
            // The server is so slow that the write lasts longer than the conductor's
            // absence of half a minute.
            let bytes = files[0].content.len() as u64;
            files[0].behaviour.bytes_per_second = Some(bytes / 40);
        }
        Ok(files)
    }

    /// The complete kernel arguments of the builder's ISO: Ironic adds none.
    pub(super) fn own_iso_arguments(&self) -> String {
        let ip = match self.addresses {
            Addresses::Dhcp | Addresses::NetworkData | Addresses::Secret => "ip=dhcp".to_owned(),
            Addresses::KernelArguments => {
                format!("ip={GUEST_V4}::{HOST_V4}:255.255.255.0:::none")
            }
        };
        let ironic = if self.configuration.mdns {
            // With collectors set, the agent posts the inventory to the API that it found
            // by mDNS.
            "ipa-api-url=mdns ipa-inspection-collectors=default,logs".to_owned()
        } else {
            let api = self.configuration.api_url();
            format!("ipa-api-url={api} ipa-inspection-callback-url={api}/v1/continue_inspection")
        };
        format!("{TEST_ARGUMENTS} {ip} {ironic}")
    }

    async fn image(&self, lab: &Lab) -> Result<ServedFile> {
        let packing = self.packing();
        let image = match self.addresses {
            // The NetworkManager of this image shows the network of the installed
            // system.
            Addresses::Secret => artifacts::network_manager_image()?.0,
            _ => artifacts::coreos_image(packing)?,
        };
        if self.deploy != Deploy::WriteQcow2 {
            return ServedFile::read(packing.file_name(), &image);
        }
        let qcow2 = lab.path("coreos.qcow2");
        let (from, to) = (image.display().to_string(), qcow2.display().to_string());
        // The image is compressed, like images on distribution servers.
        let arguments = ["convert", "-c", "-f", "raw", "-O", "qcow2", &from, &to];
        program::run("qemu-img", &arguments).await?;
        ServedFile::read("coreos.qcow2", &qcow2)
    }

    /// The installed system's host name. A name from the network overrides the name
    /// in the meta data.
    pub(super) fn host_name(&self) -> &'static str {
        match self.addresses {
            Addresses::Dhcp => dhcp_server::GIVEN_NAME,
            // The controller's ISO gives the host the name of its Kubernetes resource.
            Addresses::Secret => NODE,
            Addresses::KernelArguments | Addresses::NetworkData => META_DATA_NAME,
        }
    }

    /// `image_url` is that of [`Boot::ControllerIso`].
    pub(super) fn enrolment(
        &self,
        lab: &Lab,
        guest: &Guest,
        system: &str,
        image_url: Option<&str>,
    ) -> Result<Enrolment> {
        Ok(Enrolment {
            name: NODE.to_owned(),
            mac: guest.mac.clone(),
            boot_interface: match self.boot {
                Boot::VirtualMedia | Boot::OwnIso | Boot::ControllerIso => "redfish-virtual-media",
                Boot::Ipxe => "ipxe",
                Boot::HttpIpxe => "http-ipxe",
                Boot::Pxe => "pxe",
            },
            deploy_interface: match self.deploy {
                Deploy::InstallCoreos => "custom-agent",
                Deploy::WriteRaw | Deploy::WriteQcow2 => "direct",
            },
            boot_mode: match self.firmware {
                Firmware::Bios => "bios",
                Firmware::Uefi => "uefi",
            },
            bmc: self.configuration.bmc_url(),
            system: system.to_owned(),
            media: match image_url {
                Some(url) => json!({"deploy_iso": url}),
                None => self.media(lab)?,
            },
            network_data: (self.addresses == Addresses::NetworkData).then(network_data),
        })
    }

    fn media(&self, lab: &Lab) -> Result<Value> {
        if self.boot == Boot::OwnIso {
            return Ok(json!({"deploy_iso": url(OWN_ISO)}));
        }
        if self.configuration.registry {
            let [kernel, ramdisk] = registry::ARTEFACTS.map(|name| registry::url(lab, name));
            return Ok(json!({"deploy_kernel": kernel?, "deploy_ramdisk": ramdisk?}));
        }
        if self.story == Story::Replacement {
            let [kernel, ramdisk] = replacement::OTHERS.map(url);
            return Ok(json!({"deploy_kernel": kernel, "deploy_ramdisk": ramdisk}));
        }
        match self.configuration.boot_files {
            BootFiles::OfNode => {}
            BootFiles::ByArchitecture => return Ok(json!({"bootloader": url(BOOT_LOADERS)})),
            BootFiles::OfConductor(_) => return Ok(json!({})),
        }
        let mut media = json!({
            "deploy_kernel": url(KERNEL), "deploy_ramdisk": url(RAMDISK),
            "rescue_kernel": url(KERNEL), "rescue_ramdisk": url(RAMDISK),
        });
        if self.boot == Boot::Pxe {
            // Ironic's menu for GRUB lacks BOOTIF. If an inspection does not
            // identify the boot NIC, Ironic sets pxe_enabled to false on every
            // port.
            media["kernel_append_params"] = "%default% BOOTIF=${net_default_mac}".into();
        }
        Ok(media)
    }

    /// The `instance_info` for the image: that of the registry, or the first of
    /// [`Plan::files`].
    pub(super) fn instance_info(&self, lab: &Lab, image: &ServedFile) -> Result<Value> {
        if self.configuration.registry {
            return Ok(json!({
                "image_source": registry::url(lab, registry::IMAGE)?,
                "image_pull_secret": registry_tokens::SECRET,
                // The registry does not report the format, and Ironic deletes a known
                // one for an `oci://` URL with a digest.
                "image_disk_format": "raw",
                "image_type": "whole-disk",
            }));
        }
        Ok(json!({
            "image_source": format!("{}/{}", self.configuration.images_url(), image.name),
            "image_os_hash_algo": "sha512",
            "image_os_hash_value": image.sha512(),
            "image_disk_format": match self.deploy {
                Deploy::InstallCoreos | Deploy::WriteRaw => "raw",
                Deploy::WriteQcow2 => "qcow2",
            },
            "image_type": "whole-disk",
        }))
    }

    /// Returns `whole_disk` changed so that Ironic treats the image as a partition
    /// image.
    pub(super) fn partition_image(&self, whole_disk: &Value) -> Value {
        let mut info = whole_disk.clone();
        info["image_type"] = "partition".into();
        info["kernel"] = url(KERNEL).into();
        info["ramdisk"] = url(RAMDISK).into();
        info["root_gb"] = 3.into();
        info
    }

    /// The body of the deployment request: the parts of the config drive and, if
    /// needed, the step by name, as metal3 requests it.
    pub(super) fn request(&self, proof: &Proof) -> Value {
        let mut request = json!({"configdrive": {
            "meta_data": meta_data(),
            "user_data": proof.config(),
            "network_data": {},
        }});
        if self.deploy == Deploy::InstallCoreos {
            request["deploy_steps"] = json!([
                {"interface": "deploy", "step": "install_coreos", "priority": 80, "args": {}}
            ]);
        }
        request
    }
}
