//! An operator corrects the network of a host in the form on its screen.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use landfall_tests::installation::{BOOT, deploy_and_boot};
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::Lab;
use landfall_tests::peer::{Peer, host_ends, host_mac};
use landfall_tests::site::{MAC, Network, Plan};
use landfall_tests::syslog_server::SyslogServer;
use landfall_tests::vm::{Boot, Extra, Guest};
use landfall_tests::{artifacts, media};

use crate::host_test;

/// How long a busy machine may take to draw.
const DRAWING: Duration = Duration::from_secs(60);

/// The command line has VLAN 60, and the switch has VLAN 50.
#[test]
fn a_wrong_vlan_is_corrected_and_the_host_installs() {
    host_test(
        "a_wrong_vlan_is_corrected_and_the_host_installs",
        async |lab| {
            let _peer = Peer::vlan(lab).await?;
            let log = SyslogServer::start(lab).await?;
            let plan = Plan {
                network: Network::Given(
                    "vlan=enp0s3.60:enp0s3 ip=192.0.2.10::192.0.2.1:24::enp0s3.60:none",
                ),
                more_arguments: "landfall.syslog=tcp://192.0.2.1:514",
                ..Plan::default()
            };
            let mut site = plan.site(lab).await?;
            site.machine.nics.clear();
            site.machine.cords = host_ends(1);
            site.script.macs = vec![host_mac(0)];
            let services = site.serve(lab).await?;
            let mut guest = site.power_on(lab).await?;
            guest.console("no answer from", BOOT).await?;
            let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../out/logs/form.png");
            guest.press(&["ret"]).await?;
            guest.until_screen(&picture, "[60]", DRAWING).await?;
            guest
                .press(&["down", "down", "down", "backspace", "backspace", "5", "0"])
                .await?;
            guest
                .until_screen(&picture, "vlan=vlan50:enp0s3", DRAWING)
                .await?;
            guest
                .press(&["ret", "ret", "ret", "ret", "ret", "ret"])
                .await?;
            let given = "the form on the console gives: vlan=vlan50:enp0s3 \
                     ip=192.0.2.10::192.0.2.1:24::vlan50:none";
            guest.console(given, DRAWING).await?;
            deploy_and_boot(lab, &plan, &site, &services, guest).await?;
            // The syslog server was not reachable before.
            let lines = log.lines()?;
            let before = lines.iter().position(|line| {
                line.text.starts_with("no answer from") && line.text.contains("enp0s3.60")
            });
            let after = lines.iter().position(|line| line.text == given);
            ensure!(
                lines[0].stage == "init" && before.is_some() && before < after,
                "the lines of the agent before the correction are missing: {lines:#?}"
            );
            Ok(())
        },
    );
}

async fn heartbeat(lab: &Lab) -> Result<()> {
    let is_heartbeat =
        |event: &Event| event.source == Source::Conductor && event.text == "heartbeat 202";
    let start = lab.journal.start();
    lab.journal
        .wait_for("a heartbeat", start, BOOT, is_heartbeat)
        .await
        .map(drop)
}

/// Types a text on the keyboard.
async fn type_text(guest: &mut Guest, text: &str) -> Result<()> {
    for character in text.chars() {
        let name = match character {
            '.' => "dot".to_owned(),
            '/' => "slash".to_owned(),
            other => other.to_string(),
        };
        guest.press(&[&name]).await?;
    }
    Ok(())
}

/// No DHCP server answers, and the switch bonds two ports and drops frames that do not
/// have its VLAN. The form makes all of it.
#[test]
fn a_bond_with_a_vlan_is_made_in_the_form() {
    host_test("a_bond_with_a_vlan_is_made_in_the_form", async |lab| {
        let _peer = Peer::vlan_on_lacp(lab).await?;
        let plan = Plan {
            network: Network::Given("ip=dhcp"),
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.machine.nics.clear();
        site.machine.cords = host_ends(2);
        site.script.macs = vec![host_mac(0), host_mac(1)];
        site.script.hold = true;
        let _services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.console("looking for", BOOT).await?;
        let picture = lab.log_path("bond").with_extension("png");
        guest.press(&["ret"]).await?;
        guest.until_screen(&picture, "bond with", DRAWING).await?;
        // The second NIC, LACP, VLAN 50.
        guest
            .press(&["down", "right", "down", "right", "down", "5", "0", "down"])
            .await?;
        type_text(&mut guest, "192.0.2.10/24").await?;
        guest
            .until_screen(&picture, "802.3ad (LACP)", DRAWING)
            .await?;
        guest.press(&["ret", "ret", "ret", "ret", "ret"]).await?;
        let given = "the form on the console gives: bond=bond0:";
        let given = guest.console(given, DRAWING).await?.text;
        ensure!(
            given.contains("vlan=vlan50:bond0 ip=192.0.2.10:::24::vlan50:none"),
            "{given}"
        );
        heartbeat(lab).await?;
        guest.cut_power().await
    });
}

/// The keyboard of a BMC is a USB device, and there is no other. The drivers are those
/// that the builder packs for servers.
#[test]
fn a_usb_keyboard_opens_the_form() {
    host_test("a_usb_keyboard_opens_the_form", async |lab| {
        let plan = Plan {
            network: Network::Given("ip=203.0.113.10:::24::52-54-00-c0-ff-01:none"),
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.machine.boot = Boot::Direct {
            kernel: artifacts::generic_kernel()?,
            ramdisk: media::server_ramdisk(lab).await?,
            arguments: plan.kernel_arguments(),
        };
        site.machine.memory_mib = 1024;
        site.machine.extras.push(Extra::UsbKeyboard);
        site.script.macs = vec![MAC.to_owned()];
        site.script.hold = true;
        let _services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.console("route   FAILED", BOOT).await?;
        let picture = lab.log_path("usb").with_extension("png");
        guest.press(&["ret"]).await?;
        guest
            .until_screen(&picture, "[203.0.113.10/24]", DRAWING)
            .await?;
        guest.press(&["down", "down", "down", "down"]).await?;
        for _ in 0.."203.0.113.10/24".len() {
            guest.press(&["backspace"]).await?;
        }
        type_text(&mut guest, "192.0.2.10/24").await?;
        guest.press(&["ret", "ret", "ret", "ret", "ret"]).await?;
        heartbeat(lab).await?;
        guest.cut_power().await
    });
}
