//! Tests addresses that the network assigns. The tests run up to the first heartbeat,
//! because nothing after it depends on the source of an address.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use landfall_tests::conductor;
use landfall_tests::dhcp_server::DhcpServer;
use landfall_tests::installation::BOOT;
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::{GUEST_V4, HOST_V4, HOST_V6, Lab};
use landfall_tests::program;
use landfall_tests::site::{MAC, Plan, Services, Site, TEST_ARGUMENTS};
use landfall_tests::vm::{Boot, Guest};

use crate::host_test;

/// Assigns an address to the host by the DUID that NetworkManager derives from its
/// MAC address.
const HOST_BY_DUID: &str = "--dhcp-host=id:00:03:00:01:52:54:00:c0:ff:01,[2001:db8::77]";
const NO_NAMES: &str = "--port=0";
const POOL: &str = "--dhcp-range=192.0.2.100,192.0.2.150,255.255.255.0,1h";

/// A host with these network arguments and this URL of the provisioning service.
async fn host(lab: &Lab, network: &str, url: &str) -> Result<Site> {
    let mut site = Plan::default().site(lab).await?;
    let Boot::Direct { arguments, .. } = &mut site.machine.boot else {
        anyhow::bail!("expected a host that QEMU boots directly");
    };
    *arguments = format!("{TEST_ARGUMENTS} {network} ipa-api-url={url}");
    // The script stops before the installation.
    site.script.hold = true;
    Ok(site)
}

/// Switches the host on and waits for a heartbeat.
async fn up(lab: &Lab, site: &Site) -> Result<(Services, Guest)> {
    let services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    guest.console("init: landfall", BOOT).await?;
    lab.journal
        .wait_for("a heartbeat", lab.journal.start(), BOOT, is_heartbeat)
        .await?;
    Ok((services, guest))
}

fn is_heartbeat(event: &Event) -> bool {
    event.source == Source::Conductor && event.text == "heartbeat 202"
}

async fn ip(line: &str) -> Result<()> {
    let words: Vec<&str> = line.split(' ').collect();
    program::run("ip", &words).await.map(drop)
}

fn url_v4() -> String {
    format!("http://{HOST_V4}:{}", conductor::PORT)
}

/// No DHCP at all: the address comes from SLAAC, and the DNS server and the search
/// domain for the service's name come from RDNSS and DNSSL.
#[test]
fn slaac_and_rdnss() {
    host_test("slaac_and_rdnss", async |lab| {
        let _router = DhcpServer::with(
            lab,
            &[
                "--enable-ra",
                "--dhcp-range=2001:db8::,ra-only,64",
                "--dhcp-option=option6:dns-server,[2001:db8::1]",
                "--dhcp-option=option6:domain-search,lab.example",
                &format!("--host-record=ironic.lab.example,{HOST_V6}"),
            ],
        )
        .await?;
        let url = format!("http://ironic:{}", conductor::PORT);
        let site = host(lab, "ip=auto6", &url).await?;
        let (_services, guest) = up(lab, &site).await?;
        for text in [
            "2001:db8::5054:ff:fec0:ff01/64 from router advertisement",
            "DNS 2001:db8::1, search lab.example from router advertisement",
        ] {
            lab.journal.console_line(&[text])?;
        }
        guest.cut_power().await
    });
}

/// IPv4 and IPv6 work independently: the service's name has an address in each
/// family, and the host answers at both of its own addresses.
#[test]
fn dual_stack() {
    host_test("dual_stack", async |lab| {
        let _router = DhcpServer::with(
            lab,
            &[
                "--enable-ra",
                POOL,
                "--dhcp-host=52:54:00:c0:ff:01,192.0.2.77",
                "--dhcp-range=2001:db8::,ra-only,64",
                &format!("--host-record=ironic.lab.example,{HOST_V4},{HOST_V6}"),
            ],
        )
        .await?;
        let url = format!("http://ironic.lab.example:{}", conductor::PORT);
        let site = host(lab, "ip=dhcp,dhcp6", &url).await?;
        let (_services, guest) = up(lab, &site).await?;
        // The agent needs only one of the two addresses for its lookup, and either may
        // come first.
        for text in [
            "192.0.2.77/24 from DHCP server 192.0.2.1",
            "2001:db8::5054:ff:fec0:ff01/64 from router advertisement",
        ] {
            guest.console(text, BOOT).await?;
        }
        for address in ["192.0.2.77", "2001:db8::5054:ff:fec0:ff01"] {
            let words = ["-c", "3", "-W", "5", address];
            program::run("ping", &words).await?;
        }
        guest.cut_power().await
    });
}

#[test]
fn dhcpv6_address() {
    host_test("dhcpv6_address", async |lab| {
        let _router = DhcpServer::with(
            lab,
            &[
                "--enable-ra",
                "--dhcp-range=2001:db8::100,2001:db8::1ff,64,1h",
                HOST_BY_DUID,
                "--dhcp-option=option6:dns-server,[2001:db8::1]",
                &format!("--host-record=ironic.lab.example,{HOST_V6}"),
            ],
        )
        .await?;
        let url = format!("http://ironic.lab.example:{}", conductor::PORT);
        let site = host(lab, "ip=dhcp6", &url).await?;
        let (_services, guest) = up(lab, &site).await?;
        lab.journal
            .console_line(&["2001:db8::77/128 from DHCP server fe80::"])?;
        guest.cut_power().await
    });
}

/// The service is in another network, and only option 121 has the route to it. Option 3
/// names a router that does not exist. The agent must ignore option 3, because it gets
/// option 121 as well (RFC 3442).
#[test]
fn classless_routes() {
    host_test("classless_routes", async |lab| {
        ip("addr add 198.51.100.1/24 dev br0").await?;
        let _server = DhcpServer::with(
            lab,
            &[
                NO_NAMES,
                "--dhcp-range=198.51.100.100,198.51.100.150,255.255.255.0,1h",
                "--dhcp-option=option:router,198.51.100.254",
                &format!("--dhcp-option=option:classless-static-route,{HOST_V4}/32,198.51.100.1"),
            ],
        )
        .await?;
        let site = host(lab, "ip=dhcp", &url_v4()).await?;
        let (_services, guest) = up(lab, &site).await?;
        lab.journal
            .console_line(&["from DHCP server 198.51.100.1"])?;
        guest.cut_power().await
    });
}

/// A new server replaces the one that gave the lease, and does not know the lease.
#[test]
fn dhcp_server_that_refuses() {
    host_test("dhcp_server_that_refuses", async |lab| {
        // A client that reaches no server at T1 asks again at T2.
        let times = ["--dhcp-option=option:T1,10", "--dhcp-option=option:T2,20"];
        let server = DhcpServer::with(lab, &[NO_NAMES, POOL, times[0], times[1]]).await?;
        let site = host(lab, "ip=dhcp", &url_v4()).await?;
        let (_services, guest) = up(lab, &site).await?;
        drop(server);
        let mark = lab.journal.mark();
        let _server = DhcpServer::with(
            lab,
            &[
                NO_NAMES,
                "--dhcp-range=192.0.2.200,192.0.2.210,255.255.255.0,1h",
            ],
        )
        .await?;
        let limit = Duration::from_secs(90);
        guest
            .console_after(mark, "DHCP: the lease has ended; asking for another", limit)
            .await?;
        guest
            .console_after(mark, " 192.0.2.2", limit)
            .await
            .context("an address of the other pool")?;
        lab.journal.line(Source::Dhcp, mark, &["DHCPNAK"])?;
        guest.cut_power().await
    });
}

#[test]
fn dhcp_address_in_use() {
    host_test("dhcp_address_in_use", async |lab| {
        // Linux answers ARP requests for all its addresses on every link.
        ip("addr add 192.0.2.77/32 dev lo").await?;
        let _server = DhcpServer::with(
            lab,
            &[NO_NAMES, POOL, &format!("--dhcp-host={MAC},192.0.2.77")],
        )
        .await?;
        let site = host(lab, "ip=dhcp", &url_v4()).await?;
        let (_services, guest) = up(lab, &site).await?;
        lab.journal
            .console_line(&["DHCP: 192.0.2.77 is in use by "])?;
        let start = lab.journal.start();
        lab.journal.line(Source::Dhcp, start, &["DHCPDECLINE"])?;
        guest.cut_power().await
    });
}

/// No DHCP server answers on one NIC. The other NIC has a static address, and the
/// agent does not wait for the first.
#[test]
fn dhcp_server_that_is_dead() {
    host_test("dhcp_server_that_is_dead", async |lab| {
        let other = "52:54:00:c0:ff:02";
        let dashes = |mac: &str| mac.replace(':', "-");
        let network = format!(
            "ip={}:dhcp,dhcp6 ip={GUEST_V4}::{HOST_V4}:24::{}:none",
            dashes(MAC),
            dashes(other)
        );
        let mut site = host(lab, &network, &url_v4()).await?;
        site.machine.nics.push(other.to_owned());
        let (_services, mut guest) = up(lab, &site).await?;
        let begun = lab.journal.console_line(&["init: landfall"])?.at;
        let lookup = lab.journal.find(lab.journal.start(), |event| {
            event.source == Source::Conductor && event.text.starts_with("lookup 200")
        });
        let lookup = lookup.context("no lookup")?.at;
        let waited = lookup.saturating_sub(begun);
        // If the agent waited for DHCP, the lookup would come after 20 s at the
        // earliest.
        ensure!(
            waited < Duration::from_secs(15),
            "the lookup came {waited:?} after init"
        );
        guest
            .console("DHCP: no answer after ", Duration::from_secs(120))
            .await?;
        let texts = [
            "address FAILED: DHCP: no answer after",
            "-> check that this network has a DHCP server;",
        ];
        guest.shows(lab, "no-dhcp", &texts, BOOT).await?;
        guest.cut_power().await
    });
}

/// The only NIC of the machine gets no address, so the machine never reaches its service.
#[test]
fn no_dhcp_server() {
    host_test("no_dhcp_server", async |lab| {
        let site = host(lab, "ip=dhcp", &url_v4()).await?;
        let mut guest = site.power_on(lab).await?;
        guest.console("DHCP: no answer after ", BOOT).await?;
        guest
            .shows_example(lab, "dhcp-does-not-answer", BOOT)
            .await?;
        guest.cut_power().await
    });
}
