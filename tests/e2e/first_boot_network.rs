//! The installed system has the network of the ramdisk before its Ignition fetches
//! anything: the config on the disk only points to the rest of the config, which is on
//! a server that only this network can reach.
//!
//! The system's own udev and NetworkManager, from Debian, read what the agent left
//! for them. There is no DHCP server, and the default gateway is an unused address:
//! only a static route through the router leads to the server.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, ensure};
use axum::body::Bytes;
use landfall_tests::artifacts;
use landfall_tests::conductor::script::Method;
use landfall_tests::config_drive;
use landfall_tests::ignition::{INSTALLED_SYSTEM_OK, Proof};
use landfall_tests::image_server::{self, Behaviour, ImageServer, ServedFile};
use landfall_tests::installation::{BOOT, DEPLOYMENT, FIRST_BOOT, POWER_OFF, check_applied};
use landfall_tests::journal::{Mark, Source};
use landfall_tests::lab::Lab;
use landfall_tests::media;
use landfall_tests::peer::{Peer, host_ends, host_mac};
use landfall_tests::program;
use landfall_tests::site::{MAC, META_DATA_NAME, Network, Plan, meta_data};
use landfall_tests::vm::{Boot, Guest, Machine};
use serde_json::{Value, json};

use crate::host_test;

/// The router is a second address of the lab's host.
const ROUTER: &str = "192.0.2.2";
/// An address behind the router (RFC 5737, TEST-NET-2).
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
/// An address that no machine has.
const NOWHERE: &str = "192.0.2.254";

const REMOTE_CONFIG: &str = "rest-of-it.ign";

/// How the ramdisk gets the description of the host's network.
#[derive(Default)]
struct Described {
    arguments: &'static str,
    /// network_data.json on virtual media.
    network_data: Option<Value>,
    /// A file for this host in the image: name and text.
    embedded: Option<(&'static str, String)>,
    /// The number of the peer's cables that connect the host's NICs. 0: one NIC on a
    /// tap.
    cables: u16,
    /// The host name that the installed system must have.
    host_name: &'static str,
}

/// Installs a host, boots it from its disk, and checks that Ignition applied the
/// whole config. Returns the position in the journal where the boot from the disk
/// begins.
async fn install_and_boot(lab: &Lab, described: &Described) -> Result<Mark> {
    for line in [
        format!("addr add {ROUTER}/24 dev br0"),
        format!("addr add {SERVER}/32 dev lo"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        program::run("ip", &words).await?;
    }
    let plan = Plan {
        network: Network::Given(described.arguments),
        ..Plan::default()
    };
    let mut site = plan.site(lab).await?;
    if described.cables > 0 {
        site.machine.nics.clear();
        site.machine.cords = host_ends(described.cables);
        site.script.macs = (0..described.cables).map(host_mac).collect();
    }
    if let Some(data) = &described.network_data {
        let medium = config_drive::with_network_data(lab, &data.to_string()).await?;
        site.machine.data_medium = Some(medium);
    }
    if let Some((name, text)) = &described.embedded {
        let folder = lab.path("hosts");
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join(name), text)?;
        let hosts = ["--hosts".to_owned(), folder.display().to_string()];
        let iso = media::iso(lab, &plan.kernel_arguments(), &hosts).await?;
        site.machine.boot = Boot::Iso(iso);
    }
    let (image, hash) = artifacts::network_manager_image()?;
    site.files[0].content = Bytes::from(std::fs::read(image)?);
    site.script.image.hash = hash;
    site.proof = Proof::new(described.host_name);
    let url = format!("http://{SERVER}:{}/{REMOTE_CONFIG}", image_server::PORT);
    site.script.method = Method::InstallCoreos {
        meta_data: meta_data(),
        ignition: Proof::pointer(&url),
    };
    let remote = ServedFile {
        name: REMOTE_CONFIG.to_owned(),
        content: Bytes::from(site.proof.config()),
        behaviour: Behaviour::default(),
    };
    let far = ImageServer::start_at(lab, &[SERVER], vec![remote], None).await?;
    let services = site.serve(lab).await?;

    let guest = site.power_on(lab).await?;
    guest.console("init: landfall", BOOT).await?;
    // Waits for the power-off, because the peer may lose the response to the last
    // command. An error of the conductor ends the wait.
    tokio::select! {
        off = guest.powered_off(BOOT + DEPLOYMENT) => off?,
        Err(error) = services.conductor.deployed(BOOT + DEPLOYMENT) => return Err(error),
    }
    ensure!(
        far.requests(REMOTE_CONFIG).is_empty(),
        "the ramdisk has fetched what is Ignition's"
    );

    let off = lab.journal.mark();
    let machine = Machine {
        boot: Boot::Disk,
        data_medium: None,
        extras: Vec::new(),
        ..site.machine.clone()
    };
    let guest = Guest::start(lab, &machine).await?;
    guest.console(INSTALLED_SYSTEM_OK, FIRST_BOOT).await?;
    guest.powered_off(POWER_OFF).await?;
    check_applied(&lab.journal, off, &site.proof)?;
    let requests = far.requests(REMOTE_CONFIG);
    ensure!(
        requests.len() == 1,
        "expected 1 request, found {requests:?}"
    );
    shown(
        lab,
        off,
        &format!("net: route {SERVER_NETWORK} via {ROUTER} dev "),
    )?;
    Ok(off)
}

const SERVER_NETWORK: &str = "198.51.100.0/24";

/// Returns the first console line after `mark` that contains `text`.
fn shown(lab: &Lab, mark: Mark, text: &str) -> Result<String> {
    Ok(lab.journal.line(Source::Console, mark, &[text])?.text)
}

/// Checks that the system got no keyfiles, but these arguments on its kernel
/// command line.
fn has_arguments(lab: &Lab, mark: Mark, arguments: &str) -> Result<()> {
    let line = shown(lab, mark, "TEST-ROOT: cmdline: ")?;
    let expected = format!(" ignition.firstboot rd.neednet=1 {arguments} ");
    ensure!(line.contains(&expected), "expected {expected:?} in {line}");
    ensure!(
        shown(lab, mark, FILES).is_err(),
        "expected no files in {FILES}"
    );
    Ok(())
}

const FILES: &str = "/boot/coreos-firstboot-network";

/// Checks that the system got these keyfiles, readable by root only, and the kernel
/// arguments of its image. It must also keep the files where NetworkManager reads them
/// at each later boot.
fn has_files(lab: &Lab, mark: Mark, names: &[&str]) -> Result<()> {
    let line = shown(lab, mark, "TEST-ROOT: cmdline: ")?;
    ensure!(
        line.contains(" ignition.firstboot rd.neednet=1 ip=dhcp rw "),
        "expected the image's own arguments in {line}"
    );
    for name in names {
        let file = format!("{FILES}/{name}.nmconnection");
        let line = shown(lab, mark, &file)?;
        ensure!(line.contains("TEST-INITRD: 600 root "), "{line}");
        let kept = format!("/etc/NetworkManager/system-connections/{name}.nmconnection");
        let line = shown(lab, mark, &kept)?;
        ensure!(line.contains("TEST-ROOT: file 600 0:0 "), "{line}");
    }
    ensure!(
        !shown(lab, mark, "TEST-ROOT: boot after: ")?.contains("coreos-firstboot-network"),
        "the files are still on the boot partition"
    );
    Ok(())
}

/// The agent's name for the NIC must also be udev's name.
#[test]
#[ignore = "as static_route_by_nmstate"]
fn static_route_by_arguments() {
    host_test("static_route_by_arguments", async |lab| {
        let arguments = "ip=192.0.2.10::192.0.2.254:24:node7.example.org:enp0s3:none \
                         rd.route=198.51.100.0/24:192.0.2.2 nameserver=192.0.2.1";
        let described = Described {
            arguments,
            host_name: "node7.example.org",
            ..Described::default()
        };
        let off = install_and_boot(lab, &described).await?;
        has_arguments(lab, off, arguments)?;
        shown(lab, off, "net: nameserver 192.0.2.1")?;
        Ok(())
    });
}

fn network(link: &str) -> Value {
    let zero = "0.0.0.0";
    json!({
        "id": "provisioning", "type": "ipv4", "link": link, "network_id": "1",
        "ip_address": "192.0.2.10", "netmask": "255.255.255.0",
        "routes": [
            {"network": zero, "netmask": zero, "gateway": NOWHERE},
            {"network": "198.51.100.0", "netmask": "255.255.255.0", "gateway": ROUTER},
        ],
    })
}

/// network_data identifies NICs only by their MAC addresses.
#[test]
#[ignore = "as static_route_by_nmstate"]
fn static_route_by_network_data() {
    host_test("static_route_by_network_data", async |lab| {
        let described = Described {
            network_data: Some(json!({
                "links": [{"id": "nic", "type": "phy", "ethernet_mac_address": MAC}],
                "networks": [network("nic")],
                "services": [{"type": "dns", "address": "192.0.2.1"}],
            })),
            host_name: META_DATA_NAME,
            ..Described::default()
        };
        let off = install_and_boot(lab, &described).await?;
        has_files(lab, off, &[&MAC.replace(':', "-")])?;
        shown(lab, off, "net: nameserver 192.0.2.1")?;
        Ok(())
    });
}

/// NMState identifies the NIC by the name that it has in the installed system.
#[test]
fn static_route_by_nmstate() {
    host_test("static_route_by_nmstate", async |lab| {
        let text = format!(
            "\
interfaces:
- name: enp0s3
  type: ethernet
  state: up
  ipv4:
    enabled: true
    dhcp: false
    address:
    - ip: 192.0.2.10
      prefix-length: 24
dns-resolver:
  config:
    server: [192.0.2.1]
routes:
  config:
  - destination: 0.0.0.0/0
    next-hop-address: {NOWHERE}
    next-hop-interface: enp0s3
  - destination: {SERVER_NETWORK}
    next-hop-address: {ROUTER}
    next-hop-interface: enp0s3
"
        );
        let described = Described {
            // The agent ignores these arguments: a file for this host overrides them.
            arguments: "ip=dhcp",
            embedded: Some(("node7.yaml", text)),
            host_name: "node7",
            ..Described::default()
        };
        let off = install_and_boot(lab, &described).await?;
        has_files(lab, off, &["enp0s3"])?;
        shown(lab, off, "net: nameserver 192.0.2.1")?;
        Ok(())
    });
}

#[test]
fn vlan_on_a_bond_by_arguments() {
    host_test("vlan_on_a_bond_by_arguments", async |lab| {
        let _peer = Peer::vlan_on_lacp(lab).await?;
        let arguments = "bond=bond0:enp0s3,enp0s4:mode=802.3ad,miimon=100,lacp_rate=fast \
                         vlan=bond0.50:bond0 ip=192.0.2.10::192.0.2.254:24::bond0.50:none \
                         rd.route=198.51.100.0/24:192.0.2.2:bond0.50";
        let described = Described {
            arguments,
            cables: 2,
            host_name: META_DATA_NAME,
            ..Described::default()
        };
        let off = install_and_boot(lab, &described).await?;
        has_arguments(lab, off, arguments)
    });
}

#[test]
#[ignore = "as vlan_on_a_bond_by_arguments"]
fn vlan_on_a_bond_by_network_data() {
    host_test("vlan_on_a_bond_by_network_data", async |lab| {
        let _peer = Peer::vlan_on_lacp(lab).await?;
        let port = |number: u16| {
            let id = format!("port{number}");
            json!({"id": id, "type": "phy", "ethernet_mac_address": host_mac(number)})
        };
        let described = Described {
            network_data: Some(json!({
                "links": [
                    port(0),
                    port(1),
                    {
                        "id": "bond0", "type": "bond", "bond_links": ["port0", "port1"],
                        "bond_mode": "802.3ad", "bond_miimon": 100,
                        "ethernet_mac_address": host_mac(0),
                    },
                    {
                        "id": "storage", "type": "vlan", "vlan_link": "bond0", "vlan_id": 50,
                        "vlan_mac_address": host_mac(0),
                    },
                ],
                "networks": [network("storage")],
                "services": [],
            })),
            cables: 2,
            host_name: META_DATA_NAME,
            ..Described::default()
        };
        let off = install_and_boot(lab, &described).await?;
        let ports = [0, 1].map(|number| host_mac(number).replace(':', "-"));
        has_files(lab, off, &["bond0", "bond0.50", &ports[0], &ports[1]])
    });
}
