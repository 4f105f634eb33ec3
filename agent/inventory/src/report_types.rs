//! Defines the inventory and the body of an inspection callback in the format that Ironic
//! expects.
//!
//! The inventory has the same fields in the same order as that of Ironic's agent, because
//! operators compare stored inventories of both agents. `null` or an empty text means
//! unknown. Only [`Inventory::bmc_mac`] is left out if it is unknown.

use std::path::PathBuf;

use landfall_devices::boot_medium::BootMedium;
use landfall_devices::identity::{ChosenDisk, Identity};
use landfall_report::failure::{Failure, Result};
use serde::Serialize;

use super::collectors::numa_topology::NumaTopology;
use super::collectors::pci_devices::PciDevice;
use super::collectors::usb_devices::UsbDevice;
use super::driver_faults::ReportedFault;
use super::lldp::Neighbours;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inventory {
    pub interfaces: Vec<Interface>,
    /// All processors together.
    pub cpu: Cpu,
    /// The disks that an image could be written to.
    pub disks: Vec<Disk>,
    pub memory: Memory,
    /// IPv4 address of the BMC.
    pub bmc_address: Option<String>,
    /// IPv6 address of the BMC.
    pub bmc_v6address: Option<String>,
    pub system_vendor: SystemVendor,
    pub boot: Boot,
    /// The kernel's host name.
    pub hostname: String,
    /// MAC address of the BMC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bmc_mac: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// The kernel's name.
    pub name: String,
    /// The permanent address if the driver knows it, otherwise the current address.
    pub mac_address: String,
    /// The first IPv4 address.
    pub ipv4_address: Option<String>,
    /// The first IPv6 address that is not link-local, otherwise a link-local address with
    /// `%name`.
    pub ipv6_address: Option<String>,
    /// Whether the interface has a link: a cable is plugged in, and the other end is
    /// active.
    pub has_carrier: bool,
    /// TLVs that the neighbour sent: each with its type and its value in hexadecimal.
    pub lldp: Option<Vec<(u8, String)>>,
    /// Vendor id: `0x8086`.
    pub vendor: Option<String>,
    /// Device id: `0x1572`.
    pub product: Option<String>,
    /// Always null. In Ironic's agent: the DHCP client identifier of an InfiniBand port.
    pub client_id: Option<String>,
    /// Always null. In Ironic's agent: the name that biosdevname would give.
    pub biosdevname: Option<String>,
    /// The speed of the fastest supported mode in Mbit/s, or the current speed if the
    /// driver reports no mode with a speed.
    pub speed_mbps: Option<u32>,
    /// The device on its bus: a PCI address, or `virtio2`.
    pub pci_address: Option<String>,
    pub driver: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// The name that the processor reports; on arm64, the name of its core.
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// The device node: `/dev/sda`.
    pub name: String,
    /// The model, with its spaces.
    pub model: Option<String>,
    /// In bytes.
    pub size: u64,
    /// Whether the disk reports that it rotates.
    pub rotational: bool,
    /// The World Wide Name with its prefix: `0x5000...`, `eui....`.
    pub wwn: Option<String>,
    pub serial: Option<String>,
    /// The vendor; for a virtio disk, its PCI vendor id.
    pub vendor: Option<String>,
    /// The WWN with the vendor's extension, if it has one.
    pub wwn_with_extension: Option<String>,
    /// The vendor's extension alone.
    pub wwn_vendor_extension: Option<String>,
    /// SCSI host, channel, target and LUN.
    pub hctl: Option<String>,
    /// `/dev/disk/by-path/...`.
    pub by_path: Option<String>,
    /// Size of a logical sector in bytes.
    pub logical_sectors: u32,
    /// Size of a physical sector in bytes.
    pub physical_sectors: u32,
    /// `sata`, `sas`, `nvme`, `usb`, ...
    pub tran: Option<String>,
    /// Values that are not sent to Ironic, but used to choose the root disk.
    #[serde(skip)]
    pub traits: DiskTraits,
}

/// Values that are used to choose the root disk, in addition to the reported fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskTraits {
    /// Identifies the disk when the agent opens it for writing.
    pub identity: Option<Identity>,
    /// Every form of the serial number that a hint may use.
    pub serials: Vec<String>,
    /// Every form of the WWN that a hint may use.
    pub wwns: Vec<String>,
    /// Every by-path link; the first one is reported.
    pub by_paths: Vec<String>,
    /// The kernel rejects writes.
    pub read_only: bool,
    /// Virtual media that the BMC presents to the host.
    pub virtual_media: bool,
    /// Set if the host booted from this disk, or gets its settings from it.
    pub boot_medium: Option<BootMedium>,
    /// The other paths to the same disk.
    pub other_paths: Vec<OtherPath>,
    /// The partitions that the kernel knows, including those on the other paths.
    pub partitions: Vec<PartitionNode>,
}

impl Disk {
    /// The disk to open later: its path, and its identity when the disks were listed.
    ///
    /// # Errors
    /// If the kernel does not report the disk's device number.
    pub fn chosen(&self) -> Result<ChosenDisk> {
        let path = PathBuf::from(&self.name);
        match self.traits.identity {
            Some(identity) => Ok(ChosenDisk { path, identity }),
            None => Err(Failure::device_not_found(format!(
                "{}: the kernel does not give its device number",
                self.name
            ))),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionNode {
    /// The device node: `/dev/sda1`.
    pub name: String,
    /// The number in the partition table.
    pub number: u32,
    /// In bytes.
    pub size: u64,
}

/// Another path to the same disk, as its own block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherPath {
    /// The device node: `/dev/sdb`.
    pub name: String,
    /// As in [`Disk`].
    pub hctl: Option<String>,
}

impl DiskTraits {
    /// The reason why the agent never writes to this disk, as a text that continues "it
    /// is ..."; `None` if the agent may write to it. The agent never reports a disk with
    /// such a reason to Ironic, and cleaning skips the disk.
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// The memory that the kernel manages, in bytes.
    pub total: Option<u64>,
    /// Total size of the memory modules in MiB.
    pub physical_mb: Option<u64>,
}

/// The maker of the machine; unknown fields are empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SystemVendor {
    pub product_name: String,
    pub serial_number: String,
    pub manufacturer: String,
    pub firmware: Firmware,
}

/// Unknown fields are empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Firmware {
    pub vendor: String,
    pub version: String,
    pub build_date: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Boot {
    /// `uefi` or `bios`.
    pub current_boot_mode: &'static str,
    /// `BOOTIF` as the boot loader wrote it.
    pub pxe_interface: Option<String>,
}

/// The body of an inspection callback. It has no member for a collector that did not run.
#[derive(Debug, Default, Serialize)]
pub struct InspectionBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// The disk that the embedded hints or the default rule choose. Left out if there is
    /// no such disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_disk: Option<Disk>,
    /// `BOOTIF` as the boot loader wrote it; null if the boot loader did not set
    /// `BOOTIF`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_interface: Option<Option<String>>,
    /// The requested collectors, and the hardware managers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Configuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_devices: Option<Vec<PciDevice>>,
    /// USB devices of classes that lshw does not know.
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
    /// Anything except null makes Ironic fail the inspection.
    pub error: Option<String>,
    /// Devices without a driver, and drivers without firmware. Ironic's agent does not
    /// have this member.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub driver_faults: Vec<ReportedFault>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Configuration {
    /// The requested collectors.
    pub collectors: Vec<String>,
    pub managers: Vec<Manager>,
}

/// A hardware manager, the term of Ironic's agent for a back-end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Manager {
    pub name: &'static str,
    /// The version of the manager's interface.
    pub version: &'static str,
}
