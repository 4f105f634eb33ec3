//! Reads the targets from the firmware's table for an iSCSI boot (iBFT), in the files
//! below `/sys/firmware/ibft` (Documentation/ABI/testing/sysfs-ibft of Linux).

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use landfall_boot_params::argument_value::Secret;
use landfall_boot_params::{FirmwareRecord, MacAddr};
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use crate::lun::Lun;

/// The maximum number of records of one kind, and of files in one record. The iBFT has
/// room for two targets and two NICs.
const MOST_RECORDS: usize = 16;
const MOST_FILES: usize = 32;
/// The maximum length in bytes of a value, and of a name. The name of a target has at
/// most 223 bytes (RFC 7143, 4.2.7.1), and a CHAP secret has at most 255 bytes.
const LONGEST_VALUE: usize = 256;
const LONGEST_NAME: usize = 223;
/// The port that IANA gave iSCSI, for a firmware that leaves it out.
const PORT: u16 = 3260;

/// The content of the table, without the records that cannot be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootTable {
    /// The name of this machine as an initiator.
    pub initiator: String,
    pub targets: Vec<BootTarget>,
    /// Why a record is ignored, one line each.
    pub faults: Vec<String>,
}

/// One target, and the logical unit on it that the firmware booted from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootTarget {
    /// The directory's name: `target0`.
    pub record: String,
    pub name: String,
    pub portal: SocketAddr,
    pub lun: Lun,
    /// The NIC that the firmware reaches the target over, if the table says it.
    pub nic: Option<BootNic>,
    pub chap: Option<Chap>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootNic {
    /// The directory's name: `ethernet0`.
    pub record: String,
    pub mac: MacAddr,
    pub vlan: Option<u16>,
}

/// The names and secrets of CHAP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chap {
    /// The name and the secret with which this machine authenticates itself.
    pub name: String,
    pub secret: Secret,
    /// The name and the secret with which the target must authenticate itself.
    pub reverse: Option<(String, Secret)>,
}

impl fmt::Display for BootTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.portal)
    }
}

impl BootTable {
    /// Reads the table from a mounted sysfs. `None` if the firmware has no table, or if
    /// the module `iscsi_ibft` is not loaded.
    pub fn read(sysfs: &SystemPath) -> Option<Self> {
        let table = sysfs.join("firmware/ibft");
        let records = |prefix: &str| -> Vec<FirmwareRecord> {
            let names = sysfs::names(&table).into_iter();
            let names = names.filter(|name| name.starts_with(prefix));
            let record = |name: String| FirmwareRecord {
                files: files(&table.join(&name)),
                name,
            };
            names.take(MOST_RECORDS).map(record).collect()
        };
        table.is_dir().then(|| {
            Self::parse(
                &records("initiator"),
                &records("target"),
                &records("ethernet"),
            )
        })
    }

    /// Parses the records of the directories `initiator`, `targetN` and `ethernetN`.
    pub fn parse(
        initiators: &[FirmwareRecord],
        targets: &[FirmwareRecord],
        nics: &[FirmwareRecord],
    ) -> Self {
        let mut table = Self::default();
        let mut initiators = initiators.iter();
        match initiators.find_map(|record| name_in(record, "initiator-name")) {
            Some(name) => table.initiator = name,
            None if targets.is_empty() => (),
            None => {
                let fault = "expected a name of this initiator, found none; the targets are ignored -- enter the initiator name (IQN) in the firmware's iSCSI settings";
                table.faults.push(fault.to_owned());
                return table;
            }
        }
        for record in targets.iter().take(MOST_RECORDS) {
            match target(record, nics) {
                Ok(target) => table.targets.extend(target),
                Err(fault) => {
                    let record = &record.name;
                    table
                        .faults
                        .push(format!("{record}: {fault}; this target is ignored"));
                }
            }
        }
        table
    }
}

/// Parses a target. `None` for a record that the firmware marks as unused.
fn target(record: &FirmwareRecord, nics: &[FirmwareRecord]) -> Result<Option<BootTarget>, String> {
    let file = |name: &str| record.files.get(name).map(|text| text.trim());
    // Bit 0 means that the block is valid, bit 1 that the firmware boots from this
    // target. Some firmware sets only one of these bits, so either bit is enough, as in
    // open-iscsi (fwparam_sysfs.c).
    if file("flags") == Some("0") {
        return Ok(None);
    }
    let fault = |name: &str| match file(name) {
        Some(found) => format!("{name}: {found:?} cannot be used"),
        None => format!("{name} is missing"),
    };
    let name = name_in(record, "target-name").ok_or_else(|| fault("target-name"))?;
    let address: IpAddr = file("ip-addr")
        .and_then(|text| text.parse().ok())
        .filter(|address: &IpAddr| !address.is_unspecified() && !address.is_multicast())
        .ok_or_else(|| fault("ip-addr"))?;
    let port = match file("port") {
        None => PORT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| fault("port"))?,
    };
    let lun = file("lun").map_or(Lun::from_firmware("00000000"), Lun::from_firmware);
    Ok(Some(BootTarget {
        record: record.name.clone(),
        name,
        portal: SocketAddr::new(address, port),
        lun: lun.ok_or_else(|| fault("lun"))?,
        nic: file("nic-assoc").and_then(|index| nic(index, nics)),
        chap: chap(record)?,
    }))
}

fn nic(index: &str, nics: &[FirmwareRecord]) -> Option<BootNic> {
    let has_index = |record: &&FirmwareRecord| {
        record
            .files
            .get("index")
            .is_some_and(|own| own.trim() == index)
    };
    let record = nics.iter().find(has_index)?;
    let vlan = record
        .files
        .get("vlan")
        .and_then(|text| text.trim().parse().ok());
    Some(BootNic {
        record: record.name.clone(),
        mac: record.mac()?,
        vlan: vlan.filter(|id| (1..=4094).contains(id)),
    })
}

/// The CHAP settings of a target. Ignores the table's `chap-type`, because some firmware
/// leaves this value zero although it sets a secret. open-iscsi ignores the value as
/// well.
fn chap(record: &FirmwareRecord) -> Result<Option<Chap>, String> {
    let file = |name: &str| {
        let content = record
            .files
            .get(name)
            .map(|text| text.trim_end_matches('\n'));
        content.filter(|text| !text.is_empty())
    };
    let pair = |name: &str, secret: &str| match (file(name), file(secret)) {
        (None, None) => Ok(None),
        (Some(name), Some(secret)) => Ok(Some((name.to_owned(), Secret(secret.to_owned())))),
        (Some(_), None) => Err(format!("{secret} is missing, but there is a {name}")),
        (None, Some(_)) => Err(format!("{name} is missing, but there is a {secret}")),
    };
    let own = pair("chap-name", "chap-secret")?;
    let reverse = pair("rev-chap-name", "rev-chap-name-secret")?;
    match (own, reverse) {
        (Some((name, secret)), reverse) => Ok(Some(Chap {
            name,
            secret,
            reverse,
        })),
        (None, None) => Ok(None),
        (None, Some(_)) => Err("chap-name is missing, but there is a rev-chap-name".to_owned()),
    }
}

/// The name of an initiator or a target; `None` if it is missing or invalid.
fn name_in(record: &FirmwareRecord, file: &str) -> Option<String> {
    let name = record.files.get(file)?.trim();
    let is_valid = |c: char| !c.is_whitespace() && !c.is_control();
    let is_name = !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_valid);
    is_name.then(|| name.to_owned())
}

fn files(directory: &SystemPath) -> BTreeMap<String, String> {
    let names = sysfs::names(directory).into_iter().take(MOST_FILES);
    let content = |name: String| {
        let text = sysfs::padded_text(&directory.join(&name))?;
        (text.len() <= LONGEST_VALUE).then_some((name, text))
    };
    names.filter_map(content).collect()
}

#[cfg(test)]
mod tests;
