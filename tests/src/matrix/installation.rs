//! Rows that install a host, from firmware to the first boot of the installed system.

use anyhow::Result;

use super::{KERNELS, MODULE_SETS, value};
use crate::artifacts::Packing;
use crate::conductor::script::Finish;
use crate::installation::{install, install_with_secure_boot};
use crate::lab::Lab;
use crate::ramdisk_parts::{Kernel, ModuleSet};
use crate::site::{Network, Plan, Way};
use crate::vm::{Bus, Firmware};

/// The firmware, and whether it has Secure Boot.
const FIRMWARE: [(&str, (Firmware, bool)); 3] = [
    ("bios", (Firmware::Bios, false)),
    ("uefi", (Firmware::Uefi, false)),
    ("secure-boot", (Firmware::Uefi, true)),
];

const WAYS: [(&str, Way); 7] = [
    ("iso", Way::Iso),
    ("stick", Way::UsbStick),
    ("pxe", Way::Pxe),
    ("ipxe", Way::IpxeChained),
    ("http", Way::Http),
    ("http-iso", Way::HttpIso),
    ("uki", Way::Uki),
];

const CONTROLLERS: [(&str, Bus); 4] = [
    ("virtio-blk", Bus::VirtioBlk),
    ("virtio-scsi", Bus::VirtioScsi),
    ("nvme", Bus::Nvme),
    ("sata", Bus::Sata),
];

/// One installation.
#[derive(Debug, Clone, Copy)]
pub struct Installation {
    firmware: Firmware,
    has_secure_boot: bool,
    way: Way,
    kernel: Kernel,
    module_set: ModuleSet,
    bus: Bus,
}

impl Installation {
    pub(super) fn parse(cells: &[&str]) -> Result<Self> {
        let [firmware, way, kernel, module_set, controller] = *cells else {
            anyhow::bail!("expected six cells, found {}", cells.len() + 1);
        };
        let (firmware, has_secure_boot) = value("firmware", firmware, &FIRMWARE)?;
        Ok(Self {
            firmware,
            has_secure_boot,
            way: value("way", way, &WAYS)?,
            kernel: value("kernel", kernel, &KERNELS)?,
            module_set: value("module set", module_set, &MODULE_SETS)?,
            bus: value("controller", controller, &CONTROLLERS)?,
        })
    }

    /// Whether the row can run on aarch64. Machines with aarch64 have UEFI, Debian has
    /// only the generic kernel for them, and the network tree has no iPXE for them.
    pub(super) fn is_possible_on_aarch64(self) -> bool {
        self.firmware == Firmware::Uefi
            && self.kernel == Kernel::Generic
            && self.way != Way::IpxeChained
    }

    fn plan(self) -> Plan {
        let is_stick_of_bios = self.firmware == Firmware::Bios && self.way == Way::UsbStick;
        Plan {
            firmware: self.firmware,
            way: self.way,
            kernel: self.kernel,
            module_set: self.module_set,
            bus: self.bus,
            network: match self.way {
                Way::Pxe | Way::Http | Way::HttpIso | Way::Uki => Network::Dhcp,
                Way::Direct | Way::Iso | Way::UsbStick | Way::IpxeChained => Network::StaticV4,
            },
            packing: Packing::Zst,
            // A BIOS boots from the stick again, until somebody pulls it out.
            finish: if is_stick_of_bios {
                Finish::PowerOff
            } else {
                Finish::Reboot
            },
            ..Plan::default()
        }
    }

    pub(super) async fn run(self, lab: &Lab) -> Result<()> {
        if self.has_secure_boot {
            install_with_secure_boot(lab, self.plan()).await
        } else {
            install(lab, self.plan()).await
        }
    }
}
