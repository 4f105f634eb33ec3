#![no_main]

use landfall_boot_params::NetArgs;
use landfall_network_plan::{Choice, Embedded, EmbeddedHost, EmbeddedHosts, MacAddr};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
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
});
