//! Reads from `/sys/firmware/ibft` the values that `ip=ibft` refers to.

use std::collections::BTreeMap;

use landfall_boot_params::{FirmwareNics, FirmwareRecord, MacAddr, NetArgs};
use landfall_devices::interface_names::InterfaceName;
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

/// The maximum number of records, and of files in one record. The table has room for only
/// two NICs.
const MOST_RECORDS: usize = 16;
const MOST_FILES: usize = 32;
/// In bytes: the length limit of a value. The longest value is a DHCP host
/// name.
const LONGEST: usize = 256;

/// Reads the firmware's records from a mounted sysfs into `args`, if an argument needs
/// them. NICs are listed under their current names and under the names in `names` that
/// they will get.
pub fn read_firmware_nics(args: &mut NetArgs, sysfs: &SystemPath, names: &[InterfaceName]) {
    if !args.needs_firmware() {
        return;
    }
    let table = sysfs.join("firmware/ibft");
    let records = sysfs::names(&table).into_iter();
    let records = records.filter(|name| name.starts_with("ethernet"));
    args.firmware = FirmwareNics {
        records: records
            .take(MOST_RECORDS)
            .map(|name| FirmwareRecord {
                files: files(&table.join(&name)),
                name,
            })
            .collect(),
        interfaces: interfaces(sysfs, names),
        nvme: std::mem::take(&mut args.firmware.nvme),
    };
    // Names from `ifname=` arguments take precedence over all others.
    let given = args
        .names
        .iter()
        .map(|given| (given.name.clone(), given.mac));
    args.firmware.interfaces.splice(0..0, given);
}

fn files(directory: &SystemPath) -> BTreeMap<String, String> {
    let names = sysfs::names(directory).into_iter().take(MOST_FILES);
    let content = |name: String| {
        let text = sysfs::padded_text(&directory.join(&name))?;
        (text.len() <= LONGEST).then(|| (name, text.trim_end().to_owned()))
    };
    names.filter_map(content).collect()
}

fn interfaces(sysfs: &SystemPath, names: &[InterfaceName]) -> Vec<(String, MacAddr)> {
    let directory = sysfs.join("class/net");
    let mut interfaces = Vec::new();
    for name in sysfs::names(&directory) {
        let Some(mac) = sysfs::number(&directory.join(&name).join("address")) else {
            continue;
        };
        let planned = names.iter().filter(|planned| planned.kernel_name == name);
        for planned in planned {
            let all = [&planned.name].into_iter().chain(&planned.alternatives);
            interfaces.extend(all.map(|planned| (planned.clone(), mac)));
        }
        interfaces.push((name, mac));
    }
    interfaces
}

#[cfg(test)]
mod tests {
    use std::fs;

    use landfall_boot_params::CommandLine;

    use super::*;

    #[test]
    fn reads_the_table_when_an_argument_asks_for_it() {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("firmware/ibft/ethernet0/mac", "00:53:00:ab:00:01\n"),
            ("firmware/ibft/ethernet0/index", "0\n"),
            ("firmware/ibft/ethernet0/hostname", &"x".repeat(300)),
            ("firmware/ibft/target0/index", "0\n"),
            ("class/net/eth0/address", "00:53:00:ab:00:01\n"),
            ("class/net/lo/operstate", "unknown\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let sysfs = SystemPath::captured(root.path()).unwrap();
        let names = [InterfaceName {
            kernel_name: "eth0".to_owned(),
            name: "ens3".to_owned(),
            alternatives: vec!["enp0s3".to_owned()],
        }];
        let read = |line: &str| {
            let mut args = NetArgs::from_command_line(&CommandLine::parse(line));
            read_firmware_nics(&mut args, &sysfs, &names);
            args.firmware
        };
        assert_eq!(read("ip=dhcp"), FirmwareNics::default());
        let found = read("ip=ens3:ibft ifname=lan0:00:53:00:ab:00:01");
        let [record] = &found.records[..] else {
            panic!("{found:?}");
        };
        assert_eq!(record.name, "ethernet0");
        let files: Vec<_> = record.files.iter().collect();
        let expected = [("index", "0"), ("mac", "00:53:00:ab:00:01")];
        assert_eq!(files.len(), expected.len());
        for ((name, content), file) in expected.into_iter().zip(files) {
            assert_eq!((file.0.as_str(), file.1.as_str()), (name, content));
        }
        let names: Vec<_> = found
            .interfaces
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["lan0", "ens3", "enp0s3", "eth0"]);
    }
}
