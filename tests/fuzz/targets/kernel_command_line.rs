#![no_main]

use landfall_boot_params::coreos_args::first_boot_arguments;
use landfall_boot_params::{BootParams, CommandLine, NetArgs};
use landfall_network_plan::NetworkPlan;
use landfall_network_plan::describe::describe;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let line = CommandLine::parse_bytes(data);
    let params = BootParams::from_command_line(&line);
    let _ = (params.list().len(), params.to_arguments());
    let _ = (params.is_virtual_media(), params.wants_debug());
    let _ = first_boot_arguments(&line);
    let args = NetArgs::from_command_line(&line);
    for plan in [
        NetworkPlan::for_boot(&args),
        NetworkPlan::from_boot_args(&args),
    ] {
        let _ = describe(&plan);
    }
});
