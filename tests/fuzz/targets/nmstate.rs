#![no_main]

use landfall_network_plan::describe::describe;
use landfall_network_plan::{MacAddr, NetworkPlan};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match NetworkPlan::from_nmstate(&text) {
        Ok(mut plan) => {
            for file in plan.keyfiles() {
                let is_line =
                    |line: &str| line.is_empty() || line.starts_with('[') || line.contains('=');
                assert!(file.text.lines().all(is_line), "{}", file.text);
                assert!(!file.name.contains(['/', '\n']), "{}", file.name);
            }
            plan.name_vlans("eth0", &[MacAddr([0x52, 0x54, 0, 0, 0, 1])]);
            let _ = (describe(&plan), plan.missing_nics(&[]));
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            assert!(
                faults.iter().all(|fault| !fault.contains('\n')),
                "{faults:?}"
            );
        }
    }
});
