//! Fuzz functions for documents that describe a network.

use landfall_boot_params::NetArgs;
use landfall_network_plan::describe::describe;
use landfall_network_plan::{
    Choice, Embedded, EmbeddedHost, EmbeddedHosts, Keyfile, KeyfilesError, MacAddr, NetworkPlan,
};

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
        ..EmbeddedHosts::default()
    };
    let embedded: Embedded = hosts.decide(&[("eth0".to_owned(), hosts.hosts[0].macs.clone())]);
    let _ = Choice::for_boot(&embedded, None, &NetArgs::default());
}

/// Reads NetworkManager's profiles. A line `@` separates two profiles. The parser must
/// be able to read the files that the plan writes, unless they have no interface.
pub fn keyfile(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let files = text.split("\n@\n").enumerate();
    let files = files.map(|(number, text)| Keyfile {
        name: format!("{number}.nmconnection"),
        text: text.to_owned(),
    });
    let files: Vec<Keyfile> = files.collect();
    match NetworkPlan::from_keyfiles(&files) {
        Ok(mut plan) => {
            let written = plan.keyfiles();
            check_keyfiles(&written);
            match NetworkPlan::from_keyfiles(&written) {
                Ok(_) | Err(KeyfilesError::NoInterface(_)) => {}
                Err(error) => panic!("{error}\n{written:#?}"),
            }
            plan.name_vlans("eth0", &[MacAddr([0x52, 0x54, 0, 0, 0, 1])]);
            let _ = (describe(&plan), plan.missing_nics(&[]));
        }
        Err(error) => check_faults(&error.lines()),
    }
    let embedded = Embedded {
        keyfiles: files,
        ..Embedded::default()
    };
    let _ = Choice::for_boot(&embedded, None, &NetArgs::default());
}

fn check_keyfiles(files: &[Keyfile]) {
    for file in files {
        let is_line = |line: &str| line.is_empty() || line.starts_with('[') || line.contains('=');
        assert!(file.text.lines().all(is_line), "{}", file.text);
        assert!(!file.name.contains(['/', '\n']), "{}", file.name);
    }
}

fn check_faults(faults: &[String]) {
    assert!(!faults.is_empty());
    let is_line = |fault: &String| !fault.contains('\n');
    assert!(faults.iter().all(is_line), "{faults:?}");
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
            check_keyfiles(&plan.keyfiles());
            plan.name_vlans("eth0", &[MacAddr([0x52, 0x54, 0, 0, 0, 1])]);
            let _ = (describe(&plan), plan.missing_nics(&[]));
        }
        Err(error) => check_faults(&error.lines()),
    }
}
