//! The disks, disk controllers and NICs of QEMU that a row can name.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// What a device is, and how it is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    PciNic,
    UsbNic,
    /// A disk that is a PCI device itself.
    PciDisk,
    UsbDisk,
    ScsiController,
    /// Linux finds a disk behind this controller only if the disk has a SAS address.
    SasController,
    UsbScsiController,
    AtaController,
    SdController,
}

/// All devices that a row can name.
const DEVICES: [(&str, Kind); 27] = [
    ("am53c974", Kind::ScsiController),
    ("dc390", Kind::ScsiController),
    ("e1000", Kind::PciNic),
    ("e1000e", Kind::PciNic),
    ("i82550", Kind::PciNic),
    ("i82551", Kind::PciNic),
    ("ich9-ahci", Kind::AtaController),
    ("igb", Kind::PciNic),
    ("lsi53c895a", Kind::ScsiController),
    ("megasas", Kind::ScsiController),
    ("megasas-gen2", Kind::ScsiController),
    ("mptsas1068", Kind::SasController),
    ("ne2k_pci", Kind::PciNic),
    ("nvme", Kind::PciDisk),
    ("pcnet", Kind::PciNic),
    ("piix3-ide", Kind::AtaController),
    ("pvscsi", Kind::ScsiController),
    ("rtl8139", Kind::PciNic),
    ("sdhci-pci", Kind::SdController),
    ("tulip", Kind::PciNic),
    ("usb-net", Kind::UsbNic),
    ("usb-storage", Kind::UsbDisk),
    ("usb-uas", Kind::UsbScsiController),
    ("virtio-blk-pci", Kind::PciDisk),
    ("virtio-net-pci", Kind::PciNic),
    ("virtio-scsi-pci", Kind::ScsiController),
    ("vmxnet3", Kind::PciNic),
];

/// A device of QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emulated {
    pub name: &'static str,
    kind: Kind,
}

impl Emulated {
    pub(super) fn named(found: &str) -> Result<Self> {
        let (name, kind) = { DEVICES.iter().copied() }
            .find(|(name, _)| *name == found)
            .with_context(|| {
                format!("expected a device of tests/src/matrix/emulated.rs, found {found}")
            })?;
        Ok(Self { name, kind })
    }

    #[must_use]
    pub fn is_nic(self) -> bool {
        matches!(self.kind, Kind::PciNic | Kind::UsbNic)
    }

    fn is_usb(self) -> bool {
        matches!(
            self.kind,
            Kind::UsbNic | Kind::UsbDisk | Kind::UsbScsiController
        )
    }
}

/// The PCI slot of the USB controller. The slots of the devices follow it.
const USB_SLOT: u8 = 3;

/// A device with its place in a guest: its PCI slot or USB port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    device: Emulated,
    /// The number of the device in its guest, from 1. No two devices have the same
    /// number.
    number: u8,
    /// For a USB device: its port of the USB controller, from 1.
    port: u8,
}

/// Gives each device its number and its port.
pub(super) fn placed(devices: impl Iterator<Item = Emulated>) -> Vec<Placed> {
    let mut port = 0;
    let placed = (1..).zip(devices).map(|(number, device)| {
        port += u8::from(device.is_usb());
        Placed {
            device,
            number,
            port,
        }
    });
    placed.collect()
}

/// QEMU's options for the USB controller, if one of the devices needs it.
pub(super) fn usb_controller(devices: &[Placed]) -> Option<(&'static str, String)> {
    let is_needed = devices.iter().any(|placed| placed.device.is_usb());
    is_needed.then(|| ("-device", format!("qemu-xhci,id=usb,addr={USB_SLOT:#x}")))
}

impl Placed {
    pub(super) fn name(&self) -> &'static str {
        self.device.name
    }

    pub(super) fn is_nic(&self) -> bool {
        self.device.is_nic()
    }

    /// QEMU's options for this device, each with its value. The content of a disk is in
    /// the file `content`.
    pub(super) fn options(&self, content: &Path) -> Vec<(&'static str, String)> {
        let number = self.number;
        let Emulated { name, kind } = self.device;
        let backend = if self.is_nic() {
            // Without IPv6, so that the address of a NIC is always an IPv4 address.
            let network = format!("net=10.0.{number}.0/24,ipv6=off");
            ("-netdev", format!("user,id=net{number},{network}"))
        } else {
            let file = format!("format=raw,file={}", content.display());
            ("-drive", format!("if=none,id=disk{number},{file}"))
        };
        let serial = self.serial();
        let place = if self.device.is_usb() {
            format!("bus=usb.0,port={}", self.port)
        } else {
            format!("addr={:#x}", self.slot())
        };
        let nic = format!("{name},netdev=net{number},mac={},{place}", self.mac());
        let disk = format!("drive=disk{number}");
        let controller = format!("{name},id=controller{number},{place}");
        let below = format!("bus=controller{number}.0,{disk}");
        let devices = match kind {
            // Without the NIC's option ROM: the firmware needs no driver for the NIC,
            // because QEMU loads kernel and ramdisk.
            Kind::PciNic => vec![format!("{nic},romfile=")],
            Kind::UsbNic => vec![nic],
            Kind::PciDisk | Kind::UsbDisk => vec![format!("{name},{disk},serial={serial},{place}")],
            Kind::ScsiController => {
                vec![controller, format!("scsi-hd,{below},serial={serial}")]
            }
            Kind::SasController => {
                let address = format!("wwn=0x5000c500000000{number:02x}");
                let disk = format!("scsi-hd,{below},serial={serial},{address}");
                vec![controller, disk]
            }
            // For udev, the serial number of a USB disk is that of its enclosure.
            Kind::UsbScsiController => vec![
                format!("{controller},serial={serial}"),
                format!("scsi-hd,{below}"),
            ],
            Kind::AtaController => vec![controller, format!("ide-hd,{below},serial={serial}")],
            Kind::SdController => vec![controller, format!("sd-card,{disk}")],
        };
        let devices = devices.into_iter().map(|value| ("-device", value));
        std::iter::once(backend).chain(devices).collect()
    }

    fn slot(&self) -> u8 {
        USB_SLOT + self.number
    }

    /// The MAC address of a NIC.
    pub(super) fn mac(&self) -> String {
        format!("52:54:00:c0:fe:{:02x}", self.number)
    }

    /// The address that QEMU's DHCP server gives a NIC.
    pub(super) fn address(&self) -> String {
        format!("10.0.{}.15", self.number)
    }

    /// The serial number of a disk.
    pub(super) fn serial(&self) -> String {
        match self.device.kind {
            // All SD cards of QEMU have this serial number: hw/sd/sd.c, sd_set_cid().
            Kind::SdController => "0xdeadbeef".to_owned(),
            _ => format!("matrix-{}", self.number),
        }
    }

    /// A part of a disk's name in /dev/disk/by-path. `None` for an SD card: it has no
    /// such name, because udev's path_id does not know its transport.
    pub(super) fn path_part(&self) -> Option<String> {
        match self.device.kind {
            Kind::SdController => None,
            Kind::UsbDisk | Kind::UsbScsiController => Some(format!(
                "/pci-0000:00:{USB_SLOT:02x}.0-usb-0:{}:",
                self.port
            )),
            _ => Some(format!("/pci-0000:00:{:02x}.0", self.slot())),
        }
    }

    /// Whether this entry of `driver_faults` is about the device.
    pub(super) fn is_at_fault(&self, fault: &Value) -> bool {
        let address = fault["address"].as_str().unwrap_or_default();
        if self.device.is_usb() {
            fault["bus"] == "usb" && address.contains(&format!("-{}:", self.port))
        } else {
            address == format!("0000:00:{:02x}.0", self.slot())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(names: &[&str]) -> Vec<String> {
        let devices = names.iter().map(|name| Emulated::named(name).unwrap());
        let placed = placed(devices);
        let all = placed.iter().flat_map(|one| one.options(Path::new("/d")));
        let values = usb_controller(&placed).into_iter().chain(all);
        values.map(|(_, value)| value).collect()
    }

    #[test]
    fn a_disk_is_behind_its_controller() {
        assert_eq!(
            options(&["nvme", "megasas"]),
            [
                "if=none,id=disk1,format=raw,file=/d",
                "nvme,drive=disk1,serial=matrix-1,addr=0x4",
                "if=none,id=disk2,format=raw,file=/d",
                "megasas,id=controller2,addr=0x5",
                "scsi-hd,bus=controller2.0,drive=disk2,serial=matrix-2",
            ]
        );
    }

    #[test]
    fn usb_devices_have_ports_of_one_controller() {
        assert_eq!(
            options(&["usb-net", "virtio-net-pci", "usb-storage"]),
            [
                "qemu-xhci,id=usb,addr=0x3",
                "user,id=net1,net=10.0.1.0/24,ipv6=off",
                "usb-net,netdev=net1,mac=52:54:00:c0:fe:01,bus=usb.0,port=1",
                "user,id=net2,net=10.0.2.0/24,ipv6=off",
                "virtio-net-pci,netdev=net2,mac=52:54:00:c0:fe:02,addr=0x5,romfile=",
                "if=none,id=disk3,format=raw,file=/d",
                "usb-storage,drive=disk3,serial=matrix-3,bus=usb.0,port=2",
            ]
        );
    }

    #[test]
    fn a_fault_is_found_by_its_address() {
        let names = ["usb-net", "tulip"].map(|name| Emulated::named(name).unwrap());
        let placed = placed(names.into_iter());
        let usb = serde_json::json!({"bus": "usb", "address": "1-1:1.0"});
        let pci = serde_json::json!({"bus": "pci", "address": "0000:00:05.0"});
        for (device, own, other) in [(&placed[0], &usb, &pci), (&placed[1], &pci, &usb)] {
            assert!(device.is_at_fault(own) && !device.is_at_fault(other));
        }
    }
}
