//! Names of the makers of network cards and disk controllers, by PCI vendor ID (the list
//! of pcisig.com). The ramdisk has no pci.ids, because that file is 1.4 MB long.

const VENDORS: [(u16, &str); 44] = [
    (0x1000, "Broadcom LSI"),
    (0x1002, "AMD"),
    (0x1011, "DEC"),
    (0x1014, "IBM"),
    (0x1022, "AMD"),
    (0x1028, "Dell"),
    (0x103c, "HP"),
    (0x1077, "QLogic"),
    (0x10b5, "PLX"),
    (0x10b7, "3Com"),
    (0x10de, "NVIDIA"),
    (0x10df, "Emulex"),
    (0x10ec, "Realtek"),
    (0x1137, "Cisco"),
    (0x117c, "ATTO"),
    (0x1344, "Micron"),
    (0x1414, "Microsoft"),
    (0x1425, "Chelsio"),
    (0x144d, "Samsung"),
    (0x14e4, "Broadcom"),
    (0x15ad, "VMware"),
    (0x15b3, "NVIDIA Mellanox"),
    (0x15b7, "Western Digital"),
    (0x1590, "HPE"),
    (0x177d, "Marvell Cavium"),
    (0x17d3, "Areca"),
    (0x1924, "Solarflare"),
    (0x19a2, "Emulex"),
    (0x19e5, "Huawei"),
    (0x19ee, "Netronome"),
    (0x1a03, "ASPEED"),
    (0x1ae0, "Google"),
    (0x1af4, "Red Hat virtio"),
    (0x1b36, "Red Hat QEMU"),
    (0x1b4b, "Marvell"),
    (0x1c36, "Amazon Annapurna"),
    (0x1c5c, "SK hynix"),
    (0x1d0f, "Amazon"),
    (0x1d6a, "Aquantia"),
    (0x1dd8, "AMD Pensando"),
    (0x1e0f, "KIOXIA"),
    (0x8086, "Intel"),
    (0x8088, "Wangxun"),
    (0x9005, "Microchip Adaptec"),
];

/// The maker of a PCI device by its vendor ID; `None` if the ID is not in the table.
pub(super) fn name(number: u16) -> Option<&'static str> {
    let mut vendors = VENDORS.iter();
    vendors
        .find(|(known, _)| *known == number)
        .map(|(_, name)| *name)
}
