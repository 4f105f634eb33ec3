//! The inventory as Ironic wants it.
//!
//! Order and presence of the fields are those of the original agent, since
//! operators compare stored inventories of both. `null` means unknown; only
//! [`Inventory::bmc_mac`] is left out when it is.

use serde::Serialize;

use super::collectors::numa_topology::NumaTopology;
use super::collectors::pci_devices::PciDevice;
use super::collectors::usb_devices::UsbDevice;
use super::lldp::Neighbours;
use crate::boot_medium::BootMedium;

/// Everything about the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inventory {
    /// The NICs.
    pub interfaces: Vec<Interface>,
    /// The processors, as one.
    pub cpu: Cpu,
    /// The disks that an image could be written to.
    pub disks: Vec<Disk>,
    /// The memory.
    pub memory: Memory,
    /// IPv4 address of the BMC.
    pub bmc_address: Option<String>,
    /// IPv6 address of the BMC.
    pub bmc_v6address: Option<String>,
    /// Who made the machine and its firmware.
    pub system_vendor: SystemVendor,
    /// How this boot came about.
    pub boot: Boot,
    /// What the kernel calls this host.
    pub hostname: String,
    /// MAC address of the BMC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bmc_mac: Option<String>,
}

/// A NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// The kernel's name.
    pub name: String,
    /// The permanent address where the driver knows it.
    pub mac_address: String,
    /// The first IPv4 address.
    pub ipv4_address: Option<String>,
    /// The first IPv6 address, link-local ones with `%name`.
    pub ipv6_address: Option<String>,
    /// Whether a cable with something at its end is plugged in.
    pub has_carrier: bool,
    /// TLVs of the neighbour, as type and hexadecimal value.
    pub lldp: Option<Vec<(u8, String)>>,
    /// `0x8086`.
    pub vendor: Option<String>,
    /// `0x1572`.
    pub product: Option<String>,
    /// The DHCP client identifier of an InfiniBand port.
    pub client_id: Option<String>,
    /// What biosdevname would call it.
    pub biosdevname: Option<String>,
    /// The fastest mode in Mbit/s, rather than the current one.
    pub speed_mbps: Option<u32>,
    /// The device on its bus: a PCI address, or `virtio2`.
    pub pci_address: Option<String>,
    /// The driver's name.
    pub driver: Option<String>,
}

/// The processors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// As the processor calls itself.
    pub model_name: String,
    /// The highest frequency in MHz as text (`3900.0000`), empty if unknown.
    pub frequency: String,
    /// Hardware threads.
    pub count: usize,
    /// `uname -m`.
    pub architecture: String,
    /// Features in the kernel's words.
    pub flags: Vec<String>,
    /// Processor packages.
    pub socket_count: usize,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// The device node: `/dev/sda`.
    pub name: String,
    /// The model with its blanks.
    pub model: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Whether it spins, or says so.
    pub rotational: bool,
    /// The World Wide Name with its prefix: `0x5000...`, `eui....`.
    pub wwn: Option<String>,
    /// The serial number.
    pub serial: Option<String>,
    /// The maker; a virtio disk has its PCI vendor here.
    pub vendor: Option<String>,
    /// The WWN with the extension, if there is one.
    pub wwn_with_extension: Option<String>,
    /// The vendor's extension alone.
    pub wwn_vendor_extension: Option<String>,
    /// SCSI host, channel, target and LUN.
    pub hctl: Option<String>,
    /// `/dev/disk/by-path/...`.
    pub by_path: Option<String>,
    /// Bytes of a logical sector.
    pub logical_sectors: u32,
    /// Bytes of a physical sector.
    pub physical_sectors: u32,
    /// `sata`, `sas`, `nvme`, `usb`, ...
    pub tran: Option<String>,
    /// What is not reported but counts when a root disk is chosen.
    #[serde(skip)]
    pub traits: DiskTraits,
}

/// What the choice of a root disk knows besides what is reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskTraits {
    /// Every form of the serial number that a hint may name.
    pub serials: Vec<String>,
    /// Every form of the WWN that a hint may name.
    pub wwns: Vec<String>,
    /// Every by-path name; the first is the reported one.
    pub by_paths: Vec<String>,
    /// The kernel refuses writes.
    pub read_only: bool,
    /// A medium that the BMC shows to the host.
    pub virtual_media: bool,
    /// The host booted from it, or it brings the host's settings.
    pub boot_medium: Option<BootMedium>,
    /// The other ways to the same disk.
    pub other_paths: Vec<OtherPath>,
    /// What the kernel knows of its partition table, by every path.
    pub partitions: Vec<PartitionNode>,
}

/// A partition that the kernel knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionNode {
    /// The device node: `/dev/sda1`.
    pub name: String,
    /// The number in the partition table.
    pub number: u32,
    /// Bytes.
    pub size: u64,
}

/// A block device that is the same disk as another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherPath {
    /// The device node: `/dev/sdb`.
    pub name: String,
    /// As in [`Disk`].
    pub hctl: Option<String>,
}

impl DiskTraits {
    /// Why nothing is ever written to this disk, if that is so; the text continues
    /// "it is ...". It is in no report to Ironic, and cleaning leaves it alone.
    pub fn why_untouchable(&self) -> Option<String> {
        if let Some(medium) = &self.boot_medium {
            return Some(medium.to_string());
        }
        match (self.virtual_media, self.read_only) {
            (true, _) => Some("a virtual medium of the BMC".into()),
            (false, true) => Some("read-only".into()),
            (false, false) => None,
        }
    }
}

/// The memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Bytes that the kernel manages.
    pub total: Option<u64>,
    /// MiB of the memory modules.
    pub physical_mb: Option<u64>,
}

/// Who made the machine; empty text where unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SystemVendor {
    pub product_name: String,
    pub serial_number: String,
    pub manufacturer: String,
    pub firmware: Firmware,
}

/// The firmware; empty text where unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Firmware {
    pub vendor: String,
    pub version: String,
    pub build_date: String,
}

/// How the machine was booted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Boot {
    /// `uefi` or `bios`.
    pub current_boot_mode: &'static str,
    /// `BOOTIF` as the boot loader wrote it.
    pub pxe_interface: Option<String>,
}

/// The body of an inspection callback. What no collector gathered is left out.
#[derive(Debug, Default, Serialize)]
pub struct InspectionBody {
    /// The machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// The disk that would be taken without hints; left out if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_disk: Option<Disk>,
    /// `BOOTIF` as the boot loader wrote it; null if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_interface: Option<Option<String>>,
    /// What gathered all this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Configuration>,
    /// Every PCI device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_devices: Option<Vec<PciDevice>>,
    /// USB devices without a class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usb_devices: Option<Vec<UsbDevice>>,
    /// Memory, cores and NICs by NUMA node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_topology: Option<NumaTopology>,
    /// The neighbours of each interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lldp_raw: Option<Neighbours>,
    /// tar.gz in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<String>,
    /// What went wrong; anything but null makes Ironic fail the inspection.
    pub error: Option<String>,
}

/// Which parts of the agent took part in an inspection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Configuration {
    /// The collectors that were asked for.
    pub collectors: Vec<String>,
    /// The hardware managers.
    pub managers: Vec<Manager>,
}

/// A hardware manager, as the original agent calls its back-ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Manager {
    /// Its name.
    pub name: &'static str,
    /// The version of its interface.
    pub version: &'static str,
}
