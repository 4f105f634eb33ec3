//! The life of a node, from enrolment to its second deployment, by one of the
//! ways that an operator can choose.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::configuration::Configuration;
use super::guest::{Guest, POWER_ON};
use super::node::{Enrolment, Node};
use super::{Ironic, KERNEL, RAMDISK, complaints, keep};
use crate::artifacts::{self, Packing};
use crate::config_drive;
use crate::dhcp_server;
use crate::ignition::{INSTALLED_SYSTEM_OK, Proof};
use crate::image_server::{self, ServedFile};
use crate::installation::{FIRST_BOOT, check_applied};
use crate::journal::{Event, Mark, Source};
use crate::lab::{Family, GUEST_V4, HOST_V4, Lab};
use crate::media;
use crate::program;
use crate::site::{MAC, META_DATA_NAME, meta_data, own_media_arguments};
use crate::vm::Firmware;

/// What the node is called in Ironic and in libvirt.
pub const NODE: &str = "node-1";

/// How the ramdisk gets into the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boot {
    /// An ISO that Ironic builds, by Redfish virtual media.
    VirtualMedia,
    /// Our own ISO as `deploy_iso`, as OpenShift has it.
    OwnIso,
    /// iPXE with the files that Ironic writes.
    Ipxe,
}

/// How the image gets onto the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deploy {
    /// Deploy interface `custom-agent`, step `install_coreos`.
    InstallCoreos,
    /// Deploy interface `direct` with a raw image, streamed.
    WriteRaw,
    /// The same with a qcow2 image.
    WriteQcow2,
}

/// Where the ramdisk has its address from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// DHCP.
    Dhcp,
    /// The boot arguments of our own ISO, in a network without DHCP.
    KernelArguments,
    /// The node's `network_data`, in a network without DHCP.
    NetworkData,
}

/// One way to live.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Firmware.
    pub firmware: Firmware,
    /// Boot medium.
    pub boot: Boot,
    /// Deploy method.
    pub deploy: Deploy,
    /// Address.
    pub addresses: Addresses,
    /// Clean the node when it is provided and undeployed.
    pub clean: bool,
    /// Ironic's.
    pub configuration: Configuration,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            firmware: Firmware::Uefi,
            boot: Boot::VirtualMedia,
            deploy: Deploy::InstallCoreos,
            addresses: Addresses::Dhcp,
            clean: false,
            configuration: Configuration::default(),
        }
    }
}

/// Enrol, inspect, provide, deploy, undeploy, deploy again; the disk boots after
/// both deployments. Ironic's log must hold nothing against the agent.
pub async fn whole_life(lab: &Lab, plan: &Plan) -> Result<()> {
    let image = plan.image(lab).await?;
    let instance_info = plan.instance_info(&image);
    let mut files = vec![image];
    if plan.boot == Boot::OwnIso {
        let iso = media::iso(lab, &own_media_arguments()).await?;
        files.push(ServedFile::read(OWN_ISO, &iso)?);
    }
    let dhcp_for = (plan.addresses == Addresses::Dhcp).then_some(MAC);
    let clock = Instant::now();
    let ironic = Ironic::start(lab, &plan.configuration, files, dhcp_for).await?;
    note(lab, "services", clock);
    let result = live(lab, plan, &ironic, &instance_info).await;
    if let Err(error) = &result {
        eprintln!("{}: {error:#}", lab.name());
    }
    if keep::wanted() {
        keep::until_interrupted(lab, &plan.configuration).await?;
    }
    result?;
    let events = lab.journal.events();
    let log = events
        .iter()
        .filter(|event| event.source == Source::Ironic)
        .map(|event| event.text.as_str());
    let complaints = complaints::complaints(log);
    ensure!(
        complaints.is_empty(),
        "Ironic's log holds against the agent:\n{}",
        complaints.join("\n")
    );
    Ok(())
}

async fn live(lab: &Lab, plan: &Plan, ironic: &Ironic, instance_info: &Value) -> Result<()> {
    let guest = plan.guest(lab);
    let system = guest.define(lab).await?;
    let clock = Instant::now();
    let node = Node::enrol(&ironic.api, &plan.enrolment(&guest, &system)).await?;
    node.set_automated_clean(plan.clean).await?;
    note(lab, "enrol", clock);

    let clock = Instant::now();
    let inventory = node.inspect().await?;
    check_inventory(&inventory)?;
    note(lab, "inspect", clock);
    if plan.configuration.fast_track {
        node.heard_of_the_agent().await?;
    }

    let clock = Instant::now();
    node.provide().await?;
    note(lab, "provide", clock);

    deploy(lab, plan, &node, &guest, instance_info).await?;
    if plan.configuration.fast_track {
        // The agent once, the installed system once.
        ensure_power_cycles(lab, 2)?;
    }

    let clock = Instant::now();
    node.undeploy().await?;
    note(lab, "undeploy", clock);
    if plan.clean {
        ensure_no_table(&guest)?;
    }
    deploy(lab, plan, &node, &guest, instance_info).await
}

/// How long a part of the life took, in the journal.
fn note(lab: &Lab, what: &str, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    lab.journal
        .record(Source::Machine, format!("{what} took {seconds:.1} s"));
}

async fn deploy(
    lab: &Lab,
    plan: &Plan,
    node: &Node,
    guest: &Guest,
    instance_info: &Value,
) -> Result<()> {
    let mark = lab.journal.mark();
    let clock = Instant::now();
    let proof = Proof::new(plan.host_name());
    node.deploy(instance_info, &plan.request(&proof)).await?;
    note(lab, "deploy", clock);
    let clock = Instant::now();
    installed_system(lab, mark).await?;
    note(lab, "first boot", clock);
    config_drive::partitions(&guest.disk.display().to_string()).await?;
    if plan.deploy == Deploy::InstallCoreos {
        check_applied(&lab.journal, mark, &proof)?;
    }
    Ok(())
}

fn ensure_power_cycles(lab: &Lab, wanted: usize) -> Result<()> {
    let events = lab.journal.events();
    let power_on = |event: &&Event| event.source == Source::Machine && event.text == POWER_ON;
    let found = events.iter().filter(power_on).count();
    ensure!(
        found == wanted,
        "expected {wanted} times power on, found {found}"
    );
    Ok(())
}

async fn installed_system(lab: &Lab, mark: Mark) -> Result<()> {
    lab.journal
        .wait_for("the installed system", mark, FIRST_BOOT, |event| {
            event.source == Source::Console && event.text.contains(INSTALLED_SYSTEM_OK)
        })
        .await?;
    // Nobody has to see it switch itself off: Ironic looks at the BMC.
    Ok(())
}

/// The inventory has what the guest is made of.
fn check_inventory(stored: &Value) -> Result<()> {
    let inventory = &stored["inventory"];
    let disk = &inventory["disks"][0];
    ensure!(
        disk["name"] == "/dev/vda" && disk["serial"] == "disk0",
        "the inventory's first disk is {disk}"
    );
    let nic = &inventory["interfaces"][0];
    ensure!(
        nic["mac_address"] == MAC,
        "the inventory's first NIC is {nic}"
    );
    Ok(())
}

/// After cleaning no firmware takes the disk for one that boots.
fn ensure_no_table(guest: &Guest) -> Result<()> {
    use std::io::Read;
    let mut start = vec![0; 34 * 512];
    std::fs::File::open(&guest.disk)
        .and_then(|mut disk| disk.read_exact(&mut start))
        .with_context(|| format!("reading {}", guest.disk.display()))?;
    ensure!(
        start.iter().all(|byte| *byte == 0),
        "the disk has something in its first 34 sectors after cleaning"
    );
    Ok(())
}

/// The guest's address as OpenStack describes networks.
fn network_data() -> Value {
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

/// Our ISO on the image server.
const OWN_ISO: &str = "landfall/landfall.iso";

fn url(name: &str) -> String {
    image_server::url(Family::V4, name)
}

impl Plan {
    fn guest(&self, lab: &Lab) -> Guest {
        Guest {
            name: NODE.to_owned(),
            mac: MAC.to_owned(),
            firmware: self.firmware,
            disk: lab.path("disk.raw"),
        }
    }

    fn packing(&self) -> Packing {
        match self.deploy {
            Deploy::InstallCoreos => Packing::Gz,
            Deploy::WriteRaw | Deploy::WriteQcow2 => Packing::Raw,
        }
    }

    async fn image(&self, lab: &Lab) -> Result<ServedFile> {
        let packing = self.packing();
        let image = artifacts::coreos_image(packing)?;
        if self.deploy != Deploy::WriteQcow2 {
            return ServedFile::read(packing.file_name(), &image);
        }
        let qcow2 = lab.path("coreos.qcow2");
        let (from, to) = (image.display().to_string(), qcow2.display().to_string());
        // Compressed, as the images on distribution servers are.
        let arguments = ["convert", "-c", "-f", "raw", "-O", "qcow2", &from, &to];
        program::run("qemu-img", &arguments).await?;
        ServedFile::read("coreos.qcow2", &qcow2)
    }

    /// A name that the network gave goes before the one in the meta data.
    fn host_name(&self) -> &'static str {
        match self.addresses {
            Addresses::Dhcp => dhcp_server::GIVEN_NAME,
            Addresses::KernelArguments | Addresses::NetworkData => META_DATA_NAME,
        }
    }

    fn enrolment(&self, guest: &Guest, system: &str) -> Enrolment {
        Enrolment {
            name: NODE.to_owned(),
            mac: guest.mac.clone(),
            boot_interface: match self.boot {
                Boot::VirtualMedia | Boot::OwnIso => "redfish-virtual-media",
                Boot::Ipxe => "ipxe",
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
            media: match self.boot {
                Boot::OwnIso => json!({"deploy_iso": url(OWN_ISO)}),
                Boot::VirtualMedia | Boot::Ipxe => {
                    json!({"deploy_kernel": url(KERNEL), "deploy_ramdisk": url(RAMDISK)})
                }
            },
            network_data: (self.addresses == Addresses::NetworkData).then(network_data),
        }
    }

    fn instance_info(&self, image: &ServedFile) -> Value {
        json!({
            "image_source": url(&image.name),
            "image_os_hash_algo": "sha512",
            "image_os_hash_value": image.sha512(),
            "image_disk_format": match self.deploy {
                Deploy::InstallCoreos | Deploy::WriteRaw => "raw",
                Deploy::WriteQcow2 => "qcow2",
            },
            "image_type": "whole-disk",
        })
    }

    /// What comes with the request to deploy: the config drive's parts and, as
    /// metal3 asks for it, the step by its name.
    fn request(&self, proof: &Proof) -> Value {
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
