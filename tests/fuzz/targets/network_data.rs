#![no_main]

use landfall_boot_params::NetArgs;
use landfall_network_plan::describe::describe;
use landfall_network_plan::{Choice, Embedded, MacAddr, NetworkPlan};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    if let Ok(mut plan) = NetworkPlan::from_network_data(&text) {
        plan.name_vlans("eth0", &[MacAddr([0x52, 0x54, 0, 0, 0, 1])]);
        let _ = (describe(&plan), plan.missing_nics(&[]));
    }
    let _ = Choice::for_boot(&Embedded::default(), Some(&text), &NetArgs::default());
});
