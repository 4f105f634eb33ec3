//! Builds the part of the name for a SCSI device. Each transport has its own form.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use super::Walk;

impl Walk {
    /// Whether the current directory is a SCSI device. The subsystem is not enough,
    /// because SCSI targets and hosts have the same subsystem.
    pub(super) fn is_scsi_device(&self) -> bool {
        sysfs::text(&self.current.join("uevent"))
            .is_some_and(|text| text.lines().any(|line| line == "DEVTYPE=scsi_device"))
    }

    /// Adds the part of the name for this SCSI device and goes up to the parent of its
    /// SCSI host. The names of the parent directories show the transport; no attribute of
    /// the device does.
    pub(super) fn scsi(&mut self) -> Option<()> {
        let path = self.current.as_path().to_str()?.to_owned();
        let address = hctl(self.name()?)?;
        let lun = lun_text(address[3]);
        if path.contains("/rport-") {
            self.has_bus = true;
            return self.fibre_channel(&lun);
        }
        if path.contains("/end_device-") {
            self.has_bus = true;
            return self.sas(&lun);
        }
        if path.contains("/session") {
            self.has_bus = true;
            return self.iscsi(&lun);
        }
        if path.contains("/ata") {
            return self.ata(address);
        }
        if path.contains("/vmbus_") || path.contains("/VMBUS") {
            return self.hyper_v(&lun);
        }
        self.by_host(address)
    }

    /// Names the disk by the WWPN of the remote port.
    fn fibre_channel(&mut self, lun: &str) -> Option<()> {
        self.climb_to("target")?;
        let port = sysfs::text(&self.class("fc_transport")?.join("port_name"))?;
        self.parts.push(format!("fc-{port}-{lun}"));
        self.leave_host()
    }

    /// Names the disk by its phy on the HBA or expander, or by its SAS address if several
    /// phys form a wide port.
    fn sas(&mut self, lun: &str) -> Option<()> {
        self.climb_to("end_device-")?;
        let end_device = self.class("sas_device")?;
        self.climb_to("port-")?;
        let port = self.class("sas_port")?;
        self.up();
        let expander = self.class("sas_device")?;
        let phys: u32 = sysfs::number(&port.join("num_phys"))?;
        self.parts.push(if phys == 1 {
            let phy = sysfs::text(&end_device.join("phy_identifier"))?;
            match sysfs::text(&expander.join("sas_address")) {
                Some(address) => format!("sas-exp{address}-phy{phy}-{lun}"),
                None => format!("sas-phy{phy}-{lun}"),
            }
        } else {
            let address = sysfs::text(&end_device.join("sas_address"))?;
            format!("sas-{address}-{lun}")
        });
        self.leave_host()
    }

    /// Names the disk by the portal and the name of the target.
    fn iscsi(&mut self, lun: &str) -> Option<()> {
        self.climb_to("session")?;
        let session = self.class("iscsi_session")?;
        let target = sysfs::text(&session.join("targetname"))?;
        let number = self.name()?.strip_prefix("session")?;
        let connection = session
            .join("/sys/class/iscsi_connection")
            .join(format!("connection{number}:0"));
        let address = sysfs::text(&connection.join("persistent_address"))?;
        let port = sysfs::text(&connection.join("persistent_port"))?;
        self.parts
            .push(format!("ip-{address}:{port}-iscsi-{target}-{lun}"));
        self.leave_host()
    }

    /// Names the disk by the port of the controller. With a port multiplier, the channel
    /// number is the multiplier's port.
    fn ata(&mut self, [_, channel, target, _]: [u64; 4]) -> Option<()> {
        self.climb_to("host")?;
        self.up();
        let number = sysfs::text(&self.class("ata_port")?.join("port_no"))?;
        self.parts.push(match channel {
            0 => format!("ata-{number}.{target}"),
            _ => format!("ata-{number}.{channel}.0"),
        });
        self.ata_port = Some(format!("ata-{number}"));
        Some(())
    }

    /// Names the disk by the controller's identifier, without braces and hyphens.
    fn hyper_v(&mut self, lun: &str) -> Option<()> {
        self.leave_host()?;
        let identifier = sysfs::text(&self.current.join("device_id"))?;
        let inner = identifier.strip_prefix('{')?.strip_suffix('}')?;
        let digits = inner.replace('-', "");
        self.parts.push(format!("vmbus-{digits}-{lun}"));
        Some(())
    }

    /// Names the disk by its host number relative to the lowest host number of the same
    /// controller. The kernel assigns host numbers in the order of discovery, so only the
    /// difference identifies the port.
    fn by_host(&mut self, [_, channel, target, lun]: [u64; 4]) -> Option<()> {
        self.climb_to("host")?;
        let first = sysfs::names(&self.current.parent()?)
            .iter()
            .filter_map(|name| host_number(name))
            .min()?;
        let host = host_number(self.name()?)?.checked_sub(first)?;
        self.parts
            .push(format!("scsi-{host}:{channel}:{target}:{lun}"));
        self.up();
        Some(())
    }

    /// The directory of this device in a class.
    fn class(&self, class: &str) -> Option<SystemPath> {
        let directory = self.current.join("/sys/class").join(class);
        Some(directory.join(self.name()?))
    }

    /// Goes up to the nearest device whose name begins with this text. The search
    /// includes the current device.
    fn climb_to(&mut self, beginning: &str) -> Option<()> {
        while !self.name()?.starts_with(beginning) {
            if !self.up() {
                return None;
            }
        }
        Some(())
    }

    fn leave_host(&mut self) -> Option<()> {
        self.climb_to("host")?;
        self.up();
        Some(())
    }
}

fn host_number(name: &str) -> Option<u64> {
    name.strip_prefix("host")?.parse().ok()
}

/// Parses `0:0:3:16684` into its numbers.
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

/// Formats a LUN as udev does: in decimal up to 255, and above that in hexadecimal, level
/// by level. A LUN has up to four levels of 16 bits, of which udev prints the first two.
/// The kernel stores the first level in the lowest bits of its number.
pub(super) fn lun_text(lun: u64) -> String {
    if lun < 256 {
        return format!("lun-{lun}");
    }
    format!(
        "lun-0x{:04x}{:04x}00000000",
        lun & 0xffff,
        lun >> 16 & 0xffff
    )
}
