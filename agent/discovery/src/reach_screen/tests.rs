use landfall_network::lab;
use landfall_network::resolv_conf::DnsServer;
use landfall_network_plan::{MacAddr, Source};

use super::*;

fn nic(number: u8, address: Option<(&str, AddressOrigin)>) -> NicState {
    NicState {
        name: format!("enp{number}s0f0np0"),
        mac: MacAddr([0x52, 0x54, 0, 0xc0, 0xff, number]),
        addresses: { address.into_iter() }
            .map(|(text, origin)| lab::address(text, origin))
            .collect(),
        ..lab::nic(number.into(), false)
    }
}

fn given(number: u8) -> NicState {
    let origin = AddressOrigin::Plan(Source::KernelArguments);
    nic(number, Some(("192.0.2.10/24", origin)))
}

fn shown(nics: Vec<NicState>, ways: Vec<(u32, Vec<StepResult>)>) -> String {
    let network = NetworkState {
        nics,
        dns: vec![DnsServer::by("enp1s0f0np0", [192, 0, 2, 53].into())],
        source: Some(Source::KernelArguments),
        ..NetworkState::default()
    };
    let reach = Reach {
        over: None,
        ways: ways.into_iter().collect(),
    };
    let lines = screen("http://ironic.example.org:6385", &network, &reach);
    for line in &lines {
        let on_console = format!("[{:9.3}] discovery: {line}", 99.0);
        assert!(on_console.len() <= 80, "{on_console}");
        assert!(line.is_ascii(), "{line}");
    }
    lines.join("\n")
}

#[test]
fn each_failed_step_is_shown_with_a_remedy() {
    let route = || StepResult::done(Step::Route, "via 192.0.2.1");
    let name = || StepResult::done(Step::Dns, "192.0.2.1 2001:db8::1");
    let tcp = || StepResult::done(Step::Tcp, "192.0.2.1:6385");
    for (steps, expected) in [
        (
            vec![StepResult::failed(Step::Route, "no route to 198.51.100.1")],
            "  route   FAILED: no route to 198.51.100.1\n          \
             -- no gateway leads there: give one (ip=,\n          rd.route=)",
        ),
        (
            vec![StepResult::failed(
                Step::Dns,
                "ironic.example.org: name or service not known",
            )],
            "  DNS     FAILED: ironic.example.org: name or service not\n          known\n          \
             -- check the name, and the name servers\n          192.0.2.53",
        ),
        (
            vec![
                route(),
                name(),
                StepResult::failed(Step::Tcp, "connection refused"),
            ],
            "  route   via 192.0.2.1\n  DNS     192.0.2.1 2001:db8::1\n  \
             TCP     FAILED: connection refused\n          \
             -- the host answers, but nothing listens on\n          this port: check the port and that the service\n          runs",
        ),
        (
            vec![
                route(),
                name(),
                StepResult::failed(Step::Tcp, "no answer in 8 s"),
            ],
            "  TCP     FAILED: no answer in 8 s\n          \
             -- the host cannot be reached: check VLAN,\n          \
             gateway and firewall; a switch port may take 50\n          s to forward",
        ),
        (
            vec![StepResult::failed(
                Step::Tcp,
                "no route to host -- is the prefix length /16 (the netmask) right? is it up?",
            )],
            "  TCP     FAILED: no route to host\n          \
             -- is the prefix length /16 (the netmask)\n          right? is it up?",
        ),
        (
            vec![
                route(),
                tcp(),
                StepResult::failed(Step::Tls, "invalid peer certificate: Expired"),
            ],
            "  TCP     192.0.2.1:6385\n  TLS     FAILED: invalid peer certificate: Expired",
        ),
        (
            vec![
                tcp(),
                StepResult::failed(Step::Http, "invalid HTTP version parsed"),
            ],
            "  HTTP    FAILED: invalid HTTP version parsed\n          \
             -- a server answers there, but not as expected:\n          check the URL",
        ),
    ] {
        let text = shown(vec![given(1)], vec![(1, steps)]);
        assert!(text.contains(expected), "{text}\nexpected:\n{expected}");
    }
}

#[test]
fn the_screen_of_a_host_with_many_nics() {
    let cut = NicState {
        carrier: false,
        ..nic(2, None)
    };
    let negotiating = NicState {
        awaits_carrier: true,
        ..cut.clone()
    };
    let silent = NicState {
        trouble: Some("enp3s0f0np0 DHCP: no answer after 90 s".to_owned()),
        ..nic(3, None)
    };
    let long = AddressOrigin::RouterAdvertisement;
    let far = nic(5, Some(("2001:db8:1234:5678:9abc:def0:1234:5678/64", long)));
    let idle = |number| NicState {
        shall_have_address: false,
        ..nic(number, None)
    };
    let nics = vec![
        given(1),
        NicState { index: 2, ..cut },
        silent,
        NicState {
            index: 4,
            name: "eth4".to_owned(),
            ..negotiating
        },
        far,
        nic(6, None),
        idle(7),
        idle(8),
    ];
    let refused = vec![StepResult::failed(Step::Tcp, "connection refused")];
    assert_eq!(
        shown(nics, vec![(1, refused)]),
        "\
looking for http://ironic.example.org:6385
network: kernel arguments
enp1s0f0np0 (52:54:00:c0:ff:01)
  carrier ok
  address 192.0.2.10/24 from kernel argument ip=
  TCP     FAILED: connection refused
          -- the host answers, but nothing listens on
          this port: check the port and that the service
          runs
enp2s0f0np0 (52:54:00:c0:ff:02)
  carrier FAILED: none
          -- check cable and switch port
enp3s0f0np0 (52:54:00:c0:ff:03)
  carrier ok
  address FAILED: DHCP: no answer after 90 s
          -- check that this network has a DHCP server; a
          switch port may take 50 s to forward
eth4 (52:54:00:c0:ff:02)
  carrier none yet
enp5s0f0np0 (52:54:00:c0:ff:05)
  carrier ok
  address 2001:db8:1234:5678:9abc:def0:1234:5678/64 from
          router advertisement
enp6s0f0np0 (52:54:00:c0:ff:06)
  carrier ok
  address none yet, still waiting
NICs that get no address: enp7s0f0np0 enp8s0f0np0"
    );
}

#[test]
fn the_screen_shows_faults_of_the_source_and_a_missing_nic() {
    let network = NetworkState {
        source: Some(Source::Default),
        faults: vec!["network_data: expected JSON; it is not used".to_owned()],
        ..NetworkState::default()
    };
    let url = format!("http://{}:6385", "x".repeat(60));
    let lines = screen(&url, &network, &Reach::default());
    assert_eq!(
        lines[3..],
        [
            "network: no configuration, DHCP and SLAAC on every NIC",
            "FAULT network_data: expected JSON; it is not used",
            "no NIC found",
            "-- check that the ramdisk has its driver"
        ]
    );
    assert_eq!(lines[..3].concat().matches('x').count(), 60);
    assert!(lines.iter().all(|line| line.len() <= WIDTH), "{lines:#?}");
}

#[test]
fn missing_firmware_is_not_a_loose_cable() {
    let without_firmware = NicState {
        carrier: false,
        trouble: Some("x no carrier, firmware bnx2x/bnx2x-e2.fw is missing".to_owned()),
        ..nic(1, None)
    };
    let screen = shown(vec![without_firmware], Vec::new());
    let expected = "\
  carrier FAILED: none, firmware bnx2x/bnx2x-e2.fw is
          missing
          -- build the ramdisk with --firmware debian";
    assert!(screen.contains(expected), "{screen}");
}

#[test]
fn a_bond_whose_nics_do_not_exist_is_not_a_loose_cable() {
    let bond = NicState {
        carrier: false,
        without_ports: Some("bond0".to_owned()),
        ..nic(1, None)
    };
    let screen = shown(vec![bond], Vec::new());
    let expected = "\
  carrier FAILED: none, because bond0 has no port
          -- correct the ports of bond0 in the network
          configuration";
    assert!(screen.contains(expected), "{screen}");
    assert!(!screen.contains("cable"), "{screen}");
}

#[test]
fn the_reason_for_no_nic_at_all() {
    let network = NetworkState {
        no_nic: Some("no driver for network card 0000:01:00.0 (PCI ID 1000:00e5) -- x".to_owned()),
        ..NetworkState::default()
    };
    let lines = screen("http://x:6385", &network, &Reach::default());
    let expected = [
        "no NIC found",
        "no driver for network card 0000:01:00.0 (PCI ID",
    ];
    assert_eq!(lines[1..3], expected);
}

#[test]
fn success_is_one_line() {
    let network = NetworkState {
        nics: vec![given(1)],
        ..NetworkState::default()
    };
    let mut reach = Reach::default();
    assert_eq!(short(1, &network, &reach), "over enp1s0f0np0");
    let route = StepResult::done(Step::Route, "on the link");
    reach.ways.insert(1, vec![route]);
    assert_eq!(
        short(1, &network, &reach),
        "over enp1s0f0np0, route on the link"
    );
}

/// The mask works on single lines, and the second half of a signed link does not look
/// like a link.
#[test]
fn a_signed_link_is_masked_before_its_line_is_broken() {
    let user = "a".repeat(60);
    for service in [
        "https://s3.example.org/images/fcos-41.raw.xz?X-Amz-Credential=s3cret&X-Amz-Signature=s3cret",
        &format!("https://{user}:s3cret@images.example.org/fcos-41.raw.xz"),
    ] {
        let network = NetworkState {
            nics: vec![given(1)],
            faults: vec![format!("cannot read the network of {service}")],
            ..NetworkState::default()
        };
        let step = StepResult::failed(Step::Http, format!("redirected to {service}"));
        let reach = Reach {
            over: None,
            ways: [(1, vec![step])].into(),
        };
        let text = screen(service, &network, &reach).join("\n");
        assert!(!text.contains("s3cret") && !text.contains("aaaa"), "{text}");
        assert!(text.contains("redirected to"), "{text}");
    }
}
