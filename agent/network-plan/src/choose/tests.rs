use super::*;
use crate::embedded::EmbeddedHost;
use crate::plan::Method;
use std::collections::BTreeMap;

const DATA: &str = r#"{"links": [
    {"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}],
    "networks": [{"id": "n", "type": "ipv4", "link": "a",
        "ip_address": "192.0.2.10", "netmask": "255.255.255.0"}]}"#;

fn choice(data: Option<&str>, line: &str) -> Choice {
    let args = NetArgs::parse(line);
    Choice::for_boot(&Embedded::default(), data, &args)
}

#[test]
fn the_medium_takes_precedence_over_arguments_and_these_over_the_default() {
    for (data, line, source) in [
        (Some(DATA), "ip=dhcp", Source::NetworkData),
        (Some("{"), "ip=dhcp", Source::KernelArguments),
        (Some("{}"), "quiet", Source::Default),
        (None, "ip=dhcp", Source::KernelArguments),
        (
            None,
            "rd.route=10.0.0.0/8:192.0.2.1",
            Source::KernelArguments,
        ),
        (None, "BOOTIF=01-52-54-00-00-00-01", Source::Default),
        (None, "", Source::Default),
    ] {
        let choice = choice(data, line);
        assert_eq!(choice.source, source, "{data:?} {line}");
        assert_eq!(
            choice.faults.is_empty(),
            source == Source::NetworkData || data.is_none()
        );
    }
    assert_eq!(
        choice(Some("[]"), "").faults,
        ["network_data: expected an object with links and networks; it is not used"]
    );
    let bad = r#"{"links": [{"id": "a", "type": "phy"}]}"#;
    assert_eq!(
        choice(Some(bad), "").faults,
        [
            "network_data: no link can be used; it is not used",
            "network_data: link a has no usable ethernet_mac_address; ignored"
        ]
    );
}

#[test]
fn other_nics_are_asked_unless_that_is_off() {
    for (line, method) in [
        ("", Method::Auto),
        ("ip=eth0:off", Method::Auto),
        ("ip=off", Method::Disabled),
        ("ip=:off", Method::Disabled),
    ] {
        let choice = choice(Some(DATA), line);
        assert_eq!(choice.plan.interfaces.len(), 2, "{line}");
        let others = &choice.plan.interfaces[0];
        assert!(others.matches.is_any() && others.multi, "{line}");
        assert_eq!(others.ipv4.as_ref().unwrap().method, method, "{line}");
        assert_eq!(others.ipv6.as_ref().unwrap().method, method, "{line}");
    }
    let other = choice(
        Some(DATA),
        "ip=192.0.2.1:::24:node7:eth0:none rd.net.timeout.carrier=3 \
         rd.net.dns=192.0.2.53 rd.net.dhcp.dscp=CS6",
    );
    assert_eq!(
        other.plan.warnings,
        ["ip=192.0.2.1:::24:node7:eth0:none", "rd.net.dns="]
            .map(|argument| format!("{argument}: ignored, because there is network_data"))
    );
    let others = other.plan.interfaces[0].ipv4.as_ref().unwrap();
    assert_eq!(others.automatic.dscp, Some(48));
    assert_eq!(other.plan.host_name.as_deref(), Some("node7"));
    assert_eq!(other.plan.carrier_timeout, Some(3));
}

fn embedded(document: Document) -> Embedded {
    Embedded {
        host: Some(EmbeddedHost {
            host_name: Some("node7".to_owned()),
            macs: vec!["52:54:00:00:00:01".parse().unwrap()],
            nics: BTreeMap::new(),
            root_device_hints: None,
            document,
        }),
        hosts: 50,
        faults: vec!["of another host".to_owned()],
        ..Embedded::default()
    }
}

fn with_embedded(document: Document, data: Option<&str>, line: &str) -> Choice {
    let args = NetArgs::parse(line);
    Choice::for_boot(&embedded(document), data, &args)
}

#[test]
fn the_embedded_plan_takes_precedence_over_all_others() {
    let line = "ip=dhcp ip=off nameserver=192.0.2.53 rd.route=10.0.0.0/8:192.0.2.1";
    let document = Document::NetworkData(DATA.to_owned());
    let found = with_embedded(document, Some(DATA), line);
    assert_eq!(found.source, Source::Embedded);
    let host = "node7 (52:54:00:00:00:01), one of 50 hosts in the image";
    assert_eq!(found.host.as_deref(), Some(host));
    assert_eq!(
        found.description(),
        format!("plan embedded in the ramdisk: {host}")
    );
    assert_eq!(found.faults, ["of another host"]);
    assert_eq!(found.plan.host_name.as_deref(), Some("node7"));
    assert_eq!(
        found.plan.warnings,
        ["ip=dhcp", "ip=off", "rd.route=", "nameserver="]
            .map(|argument| format!("{argument}: ignored, because there is an embedded plan"))
    );
    // NICs that the plan does not mention must not send DHCP requests, so `others`
    // switches them off.
    let [others, host] = &found.plan.interfaces[..] else {
        panic!("{:?}", found.plan.interfaces)
    };
    assert!(others.matches.is_any() && others.multi);
    for ip in [&others.ipv4, &others.ipv6] {
        assert_eq!(ip.as_ref().unwrap().method, Method::Disabled);
    }
    assert_eq!(host.ipv4.as_ref().unwrap().method, Method::Manual);
}

/// The host keeps its name, but neither its plan nor its keyfiles reach the installed
/// system.
#[test]
fn the_console_takes_precedence_and_the_host_stays() {
    let all = Embedded {
        keyfiles: vec![Keyfile {
            name: "lan.nmconnection".to_owned(),
            text: "[connection]\nid=lan\ntype=ethernet\ninterface-name=eth0\n".to_owned(),
        }],
        ..embedded(Document::NetworkData(DATA.to_owned()))
    };
    let args = NetArgs::parse("ip=192.0.2.77:::24::eth0:none");
    let found = Choice::on_console(&all, &args);
    assert_eq!(
        found.description(),
        "the form on the console (this machine is node7 (52:54:00:00:00:01), one of 50 hosts in the image)"
    );
    assert_eq!(found.source.of_address(), "the console");
    assert_eq!(found.faults, [""; 0]);
    let expected = NetworkPlan {
        host_name: Some("node7".to_owned()),
        ..NetworkPlan::for_boot(&args)
    };
    assert_eq!(found.plan, expected);
    assert!(!found.has_files());
    assert_eq!(found.keyfiles(), expected.keyfiles());
}

#[test]
fn a_faulty_embedded_plan_is_reported_and_the_next_source_is_used() {
    for (data, line, source) in [
        (Some(DATA), "ip=dhcp", Source::NetworkData),
        (None, "ip=dhcp", Source::KernelArguments),
        (None, "", Source::Default),
    ] {
        let bad = Document::NetworkData(r#"{"links": [{"id": "a"}]}"#.to_owned());
        let found = with_embedded(bad, data, line);
        assert_eq!(found.source, source);
        assert_eq!(
            found.faults,
            [
                "of another host",
                "embedded plan of node7 (52:54:00:00:00:01): it is not used",
                "embedded plan: no link can be used",
                "embedded plan: link a has no usable ethernet_mac_address; ignored",
            ]
        );
        // The host name applies even though the plan is not used.
        assert_eq!(found.plan.host_name.as_deref(), Some("node7"));
    }
}

fn keyfile(text: &str) -> Vec<Keyfile> {
    vec![Keyfile {
        name: "eth0.nmconnection".to_owned(),
        text: text.to_owned(),
    }]
}

const KEYFILE: &str = "[connection]\nid=eth0\ntype=ethernet\ninterface-name=eth0\n\
    x=1\n[ipv4]\nmethod=manual\naddress1=192.0.2.10/24\n[ipv6]\nmethod=disabled\n";

#[test]
fn keyfiles_go_after_the_embedded_plan_and_before_the_medium() {
    let args = NetArgs::parse("ip=dhcp");
    let mut given = embedded(Document::None);
    given.keyfiles = keyfile(KEYFILE);
    assert!(given.has_plan());
    let found = Choice::for_boot(&given, Some(DATA), &args);
    assert_eq!(found.source, Source::Keyfiles);
    assert_eq!(found.plan.host_name.as_deref(), Some("node7"));
    assert_eq!(found.keyfiles(), given.keyfiles, "as they are");
    assert_eq!(
        found.plan.warnings,
        [
            "keyfiles: eth0.nmconnection: [connection] x: unknown key; the ramdisk ignores it",
            "ip=dhcp: ignored, because there are keyfiles",
        ]
    );
    let [others, host] = &found.plan.interfaces[..] else {
        panic!("{:?}", found.plan.interfaces)
    };
    assert!(others.matches.is_any() && others.multi);
    assert_eq!(others.ipv4.as_ref().unwrap().method, Method::Auto);
    assert_eq!(host.ipv4.as_ref().unwrap().method, Method::Manual);

    given.host.as_mut().unwrap().document = Document::NetworkData(DATA.to_owned());
    let found = Choice::for_boot(&given, None, &args);
    assert_eq!(found.source, Source::Embedded);
    let ignored = "keyfiles in the ramdisk: they are not used, because there is an embedded plan";
    assert_eq!(found.faults, ["of another host", ignored]);
}

/// A profile from a keyfile must take precedence over the interface that the agent adds
/// for all other NICs, even with a negative priority: NetworkManager's generator gives
/// all its profiles a negative priority.
#[test]
fn a_profile_comes_before_profiles_of_the_ramdisk() {
    for priority in [-999, 0, 999] {
        let text = format!("autoconnect-priority={priority}\n[ipv4]");
        let given = Embedded {
            keyfiles: keyfile(&KEYFILE.replace("[ipv4]", &text)),
            ..Embedded::default()
        };
        let plan = Choice::for_boot(&given, None, &NetArgs::default()).plan;
        let names = plan.candidates(&["eth0"], &[]).into_iter();
        let names: Vec<_> = names
            .map(|i| plan.interfaces[i].matches.to_string())
            .collect();
        assert_eq!(names, ["eth0", "any NIC"], "{priority}");
    }
}

#[test]
fn faulty_keyfiles_are_reported_and_the_next_source_is_used() {
    let given = Embedded {
        keyfiles: keyfile(&KEYFILE.replace("192.0.2.10/24", "192.0.2.x/24")),
        ..Embedded::default()
    };
    assert!(!given.has_plan());
    let found = Choice::for_boot(&given, Some(DATA), &NetArgs::default());
    assert_eq!(found.source, Source::NetworkData);
    assert_eq!(found.keyfiles(), given.keyfiles, "as coreos-installer does");
    assert!(found.has_files());
    let found = Choice::for_boot(&given, None, &NetArgs::parse("ip=dhcp"));
    assert_eq!(found.source, Source::KernelArguments);
    assert!(found.has_files());
    assert_eq!(
        found.faults,
        [
            "keyfiles in the ramdisk: they are not used",
            "keyfiles: eth0.nmconnection: [ipv4] address1: expected an IPv4 address and its \
             prefix length such as 192.0.2.10/24, found \"192.0.2.x/24\"",
        ]
    );
}

#[test]
fn a_host_that_is_no_more_than_a_name_leaves_the_network_to_the_next_source() {
    let line = "ip=192.0.2.1:::24:other:eth0:none";
    let found = with_embedded(Document::None, None, line);
    assert_eq!(found.source, Source::KernelArguments);
    assert_eq!(found.plan.host_name.as_deref(), Some("node7"));
    assert_eq!(found.faults, ["of another host"]);
}
