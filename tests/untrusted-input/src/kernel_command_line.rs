//! A fuzz function for the kernel command line and the firmware's records of NICs.

use landfall_boot_params::coreos_args::first_boot_arguments;
use landfall_boot_params::{BootParams, CommandLine, CoreosInst, FirmwareRecord, NetArgs};
use landfall_network_plan::NetworkPlan;
use landfall_network_plan::describe::describe;
use std::collections::BTreeMap;

/// The firmware's table of NICs: each of the first four NULs in the input starts a
/// record. A record has one file per line, as `NAME=CONTENT`.
fn firmware(data: &[u8]) -> Vec<FirmwareRecord> {
    let text = String::from_utf8_lossy(data);
    let records = text.split('\0').skip(1).take(4);
    let files = |record: &str| -> BTreeMap<String, String> {
        let files = record.lines().filter_map(|line| line.split_once('='));
        files
            .map(|(name, content)| (name.to_owned(), content.to_owned()))
            .collect()
    };
    records
        .map(|record| FirmwareRecord {
            name: "ethernet0".to_owned(),
            files: files(record),
        })
        .collect()
}

pub fn kernel_command_line(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == 0);
    let line = CommandLine::parse_bytes(&data[..end.unwrap_or(data.len())]);
    let params = BootParams::from_command_line(&line);
    let _ = params.list().len();
    let _ = (params.is_virtual_media(), params.wants_debug());
    let _ = params.given_image();
    let _ = first_boot_arguments(&line);
    let inst = CoreosInst::from_command_line(&line);
    let _ = inst.list().len();
    // The disk to install to must never be a relative path.
    assert!(inst.install_dev.iter().all(|path| path.starts_with('/')));
    let mut args = NetArgs::from_command_line(&line);
    args.firmware.records = firmware(data);
    let nics = args.firmware.records.iter().filter_map(FirmwareRecord::mac);
    args.firmware.interfaces = nics.map(|mac| ("eth0".to_owned(), mac)).collect();
    for plan in [
        NetworkPlan::for_boot(&args),
        NetworkPlan::from_boot_args(&args),
    ] {
        let _ = describe(&plan);
        // The installed system parses these arguments again.
        let written = plan.to_boot_args();
        let is_word = |text: &String| !text.contains(char::is_whitespace);
        assert!(written.arguments.iter().all(is_word));
    }
}
