//! Documents that describe a network.

use landfall_boot_params::NetArgs;
use landfall_network_plan::describe::describe;
use landfall_network_plan::{Choice, Embedded, EmbeddedHost, EmbeddedHosts, MacAddr, NetworkPlan};

pub fn embedded_host(data: &[u8]) {
    let Ok(host) = EmbeddedHost::from_json(&String::from_utf8_lossy(data)) else {
        return;
    };
    assert_eq!(EmbeddedHost::from_json(&host.to_json()).as_ref(), Ok(&host));
    if let Ok(mut plan) = host.plan() {
        plan.name_vlans("eth0", &[MacAddr([0x52, 0x54, 0, 0, 0, 1])]);
        let _ = plan.keyfiles();
    }
    let hosts = EmbeddedHosts {
        hosts: vec![host],
        faults: Vec::new(),
    };
    let embedded: Embedded = hosts.decide(&[("eth0".to_owned(), hosts.hosts[0].macs.clone())]);
    let _ = Choice::for_boot(&embedded, None, &NetArgs::default());
}

pub fn network_data(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(mut plan) = NetworkPlan::from_network_data(&text) {
        plan.name_vlans("eth0", &[MacAddr([0x52, 0x54, 0, 0, 0, 1])]);
        let _ = (describe(&plan), plan.missing_nics(&[]));
    }
    let _ = Choice::for_boot(&Embedded::default(), Some(&text), &NetArgs::default());
}

pub fn nmstate(data: &[u8]) {
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
        Err(error) => {
            let faults = error.lines();
            assert!(!faults.is_empty());
            assert!(
                faults.iter().all(|fault| !fault.contains('\n')),
                "{faults:?}"
            );
        }
    }
}
