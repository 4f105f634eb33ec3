//! The names under which udev would link a disk in /dev/disk/by-path.
//!
//! Built as udev's path_id does, from the leaf of the device tree to its root;
//! parts are then joined root first. The kernel's tree is the only source, so
//! names are the same before and after udev runs on the installed system.

use std::path::Path;

use super::sysfs;
use super::system_path::SystemPath;

/// Above it there is no device.
const TOP: &str = "/sys/devices";
/// The directory of the links.
const LINKS: &str = "/dev/disk/by-path/";

/// The names of a disk, the one without a deprecated form first.
///
/// None for transports that this module does not know (Fibre Channel, iSCSI,
/// and others): a wrong name could select a wrong disk, no name cannot.
pub fn names(device: &SystemPath) -> Vec<String> {
    let mut walk = Walk {
        current: device.clone(),
        parts: Vec::new(),
        compat: None,
    };
    match walk.run(device) {
        Some(()) => walk.links(),
        None => Vec::new(),
    }
}

/// The way up from a disk.
struct Walk {
    /// The device that is looked at; below /sys/devices.
    current: SystemPath,
    /// Found so far, leaf first.
    parts: Vec<String>,
    /// What older versions of udev made of the leaf.
    compat: Option<Compat>,
}

/// The older form of a name.
enum Compat {
    /// The leaf's part was this.
    Leaf(String),
    /// All of it was behind `virtio-`.
    Virtio,
}

impl Walk {
    /// Climbs to the root. `None` unless the name came out complete.
    fn run(&mut self, device: &SystemPath) -> Option<()> {
        let mut transport = false;
        let mut bus = false;
        if let Some(controller) = self.multipath_controller(device) {
            self.current = controller;
        }
        loop {
            let subsystem = self.subsystem();
            match subsystem.as_deref() {
                Some("scsi") if self.is_scsi_device() => {
                    self.scsi()?;
                    transport = true;
                    continue;
                }
                Some("nvme") => {
                    let namespace = sysfs::text(&device.join("nsid"))?;
                    self.parts.push(format!("nvme-{namespace}"));
                    transport = true;
                    self.skip("nvme");
                    continue;
                }
                Some("usb") => {
                    self.parts.push(format!("usb-0:{}", self.usb_port()?));
                    transport = true;
                    self.skip("usb");
                    continue;
                }
                Some("virtio") => {
                    // Only virtio-blk; virtio-scsi has its part already.
                    if self.parts.is_empty() {
                        self.compat = Some(Compat::Virtio);
                    }
                    transport = true;
                    self.skip("virtio");
                    continue;
                }
                Some("pci") => {
                    self.parts.push(format!("pci-{}", self.name()?));
                    bus = true;
                    self.skip("pci");
                    continue;
                }
                Some("platform") => {
                    // A platform device needs no transport above it: that is
                    // where MMC controllers of small boards are.
                    self.parts.push(format!("platform-{}", self.name()?));
                    transport = true;
                    bus = true;
                    self.skip("platform");
                    continue;
                }
                _ => {}
            }
            if !self.up() {
                break;
            }
        }
        (transport && bus).then_some(())
    }

    fn links(self) -> Vec<String> {
        let join = |parts: &[String]| {
            let parts: Vec<&str> = parts.iter().rev().map(String::as_str).collect();
            parts.join("-")
        };
        let mut links = vec![format!("{LINKS}{}", join(&self.parts))];
        match self.compat {
            Some(Compat::Leaf(leaf)) => {
                let mut parts = self.parts;
                if let Some(first) = parts.first_mut() {
                    *first = leaf;
                }
                links.push(format!("{LINKS}{}", join(&parts)));
            }
            Some(Compat::Virtio) => {
                links.push(format!("{LINKS}virtio-{}", join(&self.parts)));
            }
            None => {}
        }
        links
    }

    /// With multipath, /sys/block leads to a virtual device; the way up begins
    /// at the controller that has the number of the disk's name.
    fn multipath_controller(&self, device: &SystemPath) -> Option<SystemPath> {
        device
            .as_path()
            .starts_with("/sys/devices/virtual/nvme-subsystem")
            .then_some(())?;
        let name = device.name()?;
        let controller = &name[..name.rfind('n')?];
        device.join("/sys/class/nvme").join(controller).resolved()
    }

    fn name(&self) -> Option<&str> {
        self.current.name()
    }

    fn subsystem(&self) -> Option<String> {
        sysfs::link_name(&self.current.join("subsystem"))
    }

    /// One step up; false at the top.
    fn up(&mut self) -> bool {
        if let Some(parent) = self.current.parent() {
            self.current = parent;
        }
        let path = self.current.as_path();
        path != Path::new(TOP) && path.starts_with(TOP)
    }

    /// Up to the first parent that is not of this subsystem. Directories that
    /// only group devices (`nvme`, `block`) are of none.
    fn skip(&mut self, subsystem: &str) {
        while self.up() {
            if self.subsystem().is_some_and(|found| found != subsystem) {
                return;
            }
        }
    }

    /// Targets and hosts are of the subsystem, too.
    fn is_scsi_device(&self) -> bool {
        sysfs::text(&self.current.join("uevent"))
            .is_some_and(|text| text.lines().any(|line| line == "DEVTYPE=scsi_device"))
    }

    /// The part of a SCSI disk; continues above its host or end device.
    fn scsi(&mut self) -> Option<()> {
        let path = self.current.as_path().to_str()?.to_owned();
        let [_, channel, target, lun] = hctl(self.name()?)?;
        if ["/rport-", "/session", "/vmbus_"]
            .iter()
            .any(|name| path.contains(name))
        {
            return None;
        }
        if path.contains("/end_device-") {
            return self.sas(lun);
        }
        self.climb_to("host")?;
        if path.contains("/ata") {
            self.up();
            let port = self.name()?.to_owned();
            let number = sysfs::text(
                &self
                    .current
                    .join("/sys/class/ata_port")
                    .join(port)
                    .join("port_no"),
            )?;
            self.compat = Some(Compat::Leaf(format!("ata-{number}")));
            // A port multiplier makes its ports channels.
            self.parts.push(match channel {
                0 => format!("ata-{number}.{target}"),
                _ => format!("ata-{number}.{channel}.0"),
            });
        } else {
            let host = host_number(self.name()?)? - self.first_host()?;
            self.parts
                .push(format!("scsi-{host}:{channel}:{target}:{lun}"));
        }
        self.up();
        Some(())
    }

    /// The part of a SAS disk: by its phy on the HBA or expander, and by its
    /// address where several phys make a wide port.
    fn sas(&mut self, lun: u64) -> Option<()> {
        let class = self.current.join("/sys/class");
        self.climb_to("end_device-")?;
        let end_device = class.join("sas_device").join(self.name()?);
        self.climb_to("port-")?;
        let port = class.join("sas_port").join(self.name()?);
        self.up();
        let expander = class.join("sas_device").join(self.name()?);
        let lun = lun_text(lun);
        let phys: u32 = sysfs::number(&port.join("num_phys"))?;
        self.parts.push(if phys == 1 {
            let phy = sysfs::text(&end_device.join("phy_identifier"))?;
            match sysfs::text(&expander.join("sas_address")) {
                Some(address) => format!("sas-exp{address}-phy{phy}-{lun}"),
                None => format!("sas-phy{phy}-{lun}"),
            }
        } else {
            format!(
                "sas-{}-{lun}",
                sysfs::text(&end_device.join("sas_address"))?
            )
        });
        self.climb_to("host")?;
        self.up();
        Some(())
    }

    /// Up to the nearest parent (or itself) with a name of this beginning.
    fn climb_to(&mut self, beginning: &str) -> Option<()> {
        while !self.name()?.starts_with(beginning) {
            if !self.up() {
                return None;
            }
        }
        Some(())
    }

    /// The smallest number among the hosts of the same controller: numbers are
    /// given in the order of discovery, the difference is the port.
    fn first_host(&self) -> Option<u64> {
        sysfs::names(&self.current.parent()?)
            .iter()
            .filter_map(|name| host_number(name))
            .min()
    }

    /// `2-4:1.0` -> `4:1.0`: the ports on the way, and the interface.
    fn usb_port(&self) -> Option<&str> {
        Some(self.name()?.split_once('-')?.1)
    }
}

fn host_number(name: &str) -> Option<u64> {
    name.strip_prefix("host")?.parse().ok()
}

/// `0:0:3:16684` as numbers.
pub fn hctl(name: &str) -> Option<[u64; 4]> {
    let mut numbers = name.split(':').map(|number| number.parse().ok());
    let all = [
        numbers.next()??,
        numbers.next()??,
        numbers.next()??,
        numbers.next()??,
    ];
    numbers.next().is_none().then_some(all)
}

/// The kernel keeps a LUN as a number; beyond 255 its four levels are shown.
fn lun_text(lun: u64) -> String {
    if lun < 256 {
        return format!("lun-{lun}");
    }
    format!(
        "lun-0x{:04x}{:04x}00000000",
        lun & 0xffff,
        lun >> 16 & 0xffff
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::sys_tree::plant;

    /// The names of the disk whose directory below sys/devices is `disk`, in a
    /// tree of these further lines. Names of bus devices need their subsystem.
    fn names_of(disk: &str, lines: &[&str]) -> Vec<String> {
        let mut text = lines.join("\n");
        let mut directory = PathBuf::from("sys/devices");
        for part in Path::new(disk).components() {
            directory.push(part);
            let name = part.as_os_str().to_str().unwrap();
            let subsystem = match name.split_once(':') {
                Some(("0000", _)) => "pci",
                Some((_, rest)) if rest.matches(':').count() == 2 => "scsi",
                _ if name.starts_with("nvme") => "nvme",
                _ if name.ends_with(".mmc") => "platform",
                _ => {
                    text += &format!("\n{}/", directory.display());
                    continue;
                }
            };
            text += &format!("\n{0}/subsystem -> /bus/{subsystem}", directory.display());
            text += &format!("\n{}/uevent = DEVTYPE=scsi_device\\n", directory.display());
        }
        let root = plant(&text);
        names(&root.path().join("sys/devices").join(disk))
    }

    #[test]
    fn sas_disks_by_phy_expander_or_address() {
        let direct =
            "pci0000:00/0000:00:03.0/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sda";
        let behind = "pci0000:00/0000:00:03.0/host0/port-0:0/expander-0:0/port-0:0:1/end_device-0:0:1/target0:0:1/0:0:1:0/block/sda";
        for (disk, phys, expected) in [
            (direct, 1, "pci-0000:00:03.0-sas-phy1-lun-0"),
            (direct, 4, "pci-0000:00:03.0-sas-0x5000c500a1-lun-0"),
            (behind, 1, "pci-0000:00:03.0-sas-exp0x500e004-phy7-lun-0"),
        ] {
            let found = names_of(
                disk,
                &[
                    &format!("sys/class/sas_port/port-0:0/num_phys = {phys}"),
                    &format!("sys/class/sas_port/port-0:0:1/num_phys = {phys}"),
                    "sys/class/sas_device/end_device-0:0/phy_identifier = 1",
                    "sys/class/sas_device/end_device-0:0/sas_address = 0x5000c500a1",
                    "sys/class/sas_device/end_device-0:0:1/phy_identifier = 7",
                    "sys/class/sas_device/expander-0:0/sas_address = 0x500e004",
                ],
            );
            assert_eq!(found, [format!("/dev/disk/by-path/{expected}")]);
        }
    }

    #[test]
    fn multipath_nvme_disk_is_named_by_its_controller() {
        let found = names_of(
            "virtual/nvme-subsystem/nvme-subsys3/nvme1n1",
            &[
                "sys/class/nvme/nvme1 -> ../../devices/pci0000:00/0000:00:02.0/nvme/nvme1",
                "sys/devices/pci0000:00/0000:00:02.0/subsystem -> /bus/pci",
                "sys/devices/pci0000:00/0000:00:02.0/nvme/nvme1/subsystem -> /class/nvme",
                "sys/devices/virtual/nvme-subsystem/nvme-subsys3/nvme1n1/nsid = 1",
            ],
        );
        assert_eq!(found, ["/dev/disk/by-path/pci-0000:00:02.0-nvme-1"]);
    }

    #[test]
    fn hosts_and_channels_are_relative_to_the_controller() {
        let raid = "pci0000:00/0000:01:00.0/host4/target4:2:0/4:2:0:0/block/sda";
        assert_eq!(
            names_of(raid, &["sys/devices/pci0000:00/0000:01:00.0/host3/"]),
            ["/dev/disk/by-path/pci-0000:01:00.0-scsi-1:2:0:0"]
        );
        let multiplier = "pci0000:00/0000:00:1f.2/ata3/host2/target2:4:0/2:4:0:0/block/sda";
        assert_eq!(
            names_of(multiplier, &["sys/class/ata_port/ata3/port_no = 1"]),
            [
                "/dev/disk/by-path/pci-0000:00:1f.2-ata-1.4.0",
                "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"
            ]
        );
    }

    #[test]
    fn a_card_in_a_platform_controller_has_a_name() {
        assert_eq!(
            names_of(
                "platform/fe340000.mmc/mmc_host/mmc0/mmc0:1/block/mmcblk0",
                &[]
            ),
            ["/dev/disk/by-path/platform-fe340000.mmc"]
        );
    }

    #[test]
    fn unknown_transports_have_no_name() {
        for disk in [
            "pci0000:00/0000:01:00.0/host1/rport-1:0-0/target1:0:0/1:0:0:0/block/sda",
            "platform/host2/session1/target2:0:0/2:0:0:1/block/sda",
            "pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda",
            "virtual/block/loop0",
            "pci0000:00/0000:00:01.0/block/xyz",
            "pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1",
        ] {
            assert_eq!(names_of(disk, &[]), [""; 0], "{disk}");
        }
    }

    #[test]
    fn large_luns_are_hexadecimal() {
        for (lun, expected) in [
            (0, "lun-0"),
            (255, "lun-255"),
            (16684, "lun-0x412c000000000000"),
            (0x0002_4001, "lun-0x4001000200000000"),
        ] {
            assert_eq!(lun_text(lun), expected);
        }
    }

    #[test]
    fn hctl_is_four_numbers() {
        assert_eq!(hctl("0:0:3:16684"), Some([0, 0, 3, 16684]));
        for name in ["", "0:0:3", "0:0:3:x", "0:0:3:1:2", "target0:0:0"] {
            assert_eq!(hctl(name), None, "{name}");
        }
    }
}
