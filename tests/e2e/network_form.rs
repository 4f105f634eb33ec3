//! An operator corrects the network of a host in the form on its screen.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use landfall_tests::dhcp_server::DhcpServer;
use landfall_tests::installation::{BOOT, deploy_and_boot};
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::Lab;
use landfall_tests::peer::{Peer, host_ends, host_mac};
use landfall_tests::site::{MAC, Network, Plan};
use landfall_tests::syslog_server::SyslogServer;
use landfall_tests::vm::{Boot, Extra, Guest};
use landfall_tests::{artifacts, media};

use crate::host_test;

/// The time limit for a change on the screen or a line on the console, on a busy
/// machine.
pub(crate) const DRAWING: Duration = Duration::from_secs(60);

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
            let source = "source: the form on the console";
            guest.console(source, DRAWING).await?;
            let address = "vlan50 192.0.2.10/24 from the console";
            guest.console(address, DRAWING).await?;
            deploy_and_boot(lab, &plan, &site, &services, guest).await?;
            // The syslog server was not reachable before the correction. The agent must
            // send the lines of that time afterwards.
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
            ':' => "shift-semicolon".to_owned(),
            '@' => "shift-2".to_owned(),
            other => other.to_string(),
        };
        guest.press(&[&name]).await?;
    }
    Ok(())
}

/// No DHCP server answers, and the switch bonds two ports and drops frames that do not
/// have its VLAN. The operator makes the bond and the VLAN in the form.
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

/// An NMState plan for the host's two NICs: a bond, and VLAN 60 on it. The switch
/// speaks LACP, but its VLAN is 50.
fn bond_with_a_wrong_vlan() -> String {
    let [one, two] = [0, 1].map(host_mac);
    format!(
        "interfaces:\n\
         - {{name: a, type: ethernet, identifier: mac-address, mac-address: '{one}'}}\n\
         - {{name: b, type: ethernet, identifier: mac-address, mac-address: '{two}'}}\n\
         - name: bond7\n  type: bond\n  link-aggregation:\n    mode: 802.3ad\n    \
         options: {{miimon: 100, lacp_rate: fast}}\n    port: [a, b]\n\
         - name: bond7.60\n  type: vlan\n  vlan: {{base-iface: bond7, id: 60}}\n  \
         ipv4: {{enabled: true, address: [{{ip: 192.0.2.10, prefix-length: 24}}]}}\n\
         routes:\n  config:\n  - {{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, \
         next-hop-interface: bond7.60}}\n"
    )
}

/// The form shows the plan in the ramdisk, so the operator corrects only the wrong
/// value. Each port of the bond is shown with its own MAC address.
#[test]
fn one_value_of_an_embedded_plan_is_corrected() {
    host_test("one_value_of_an_embedded_plan_is_corrected", async |lab| {
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
        let folder = lab.path("hosts");
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("node7.yaml"), bond_with_a_wrong_vlan())?;
        let hosts = ["--hosts".to_owned(), folder.display().to_string()];
        site.machine.boot = Boot::Direct {
            kernel: artifacts::kernel()?,
            ramdisk: media::ramdisk(lab, &hosts, &[]).await?,
            arguments: plan.kernel_arguments(),
        };
        let _services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.console("no answer from", BOOT).await?;
        let picture = lab.log_path("embedded").with_extension("png");
        guest.press(&["ret"]).await?;
        guest.until_screen(&picture, "[60]", DRAWING).await?;
        let form = guest.vga_text(&picture).await?;
        let [one, two] = [0, 1].map(host_mac);
        for shown in [
            one.as_str(),
            two.as_str(),
            "< 802.3ad (LACP) >",
            "[192.0.2.10/24]",
            "[192.0.2.1]",
            "[http://192.0.2.1:6385]",
            "1 thing is lost: bond7:",
            "lacp_rate=fast",
        ] {
            ensure!(form.contains(shown), "no {shown} in the form:\n{form}");
        }
        guest
            .press(&["down", "down", "down", "backspace", "backspace", "5", "0"])
            .await?;
        guest
            .until_screen(&picture, "vlan=vlan50:bond0", DRAWING)
            .await?;
        guest
            .press(&["ret", "ret", "ret", "ret", "ret", "ret"])
            .await?;
        let given = "the form on the console gives: bond=bond0:";
        let given = guest.console(given, DRAWING).await?.text;
        ensure!(
            given.contains("vlan=vlan50:bond0 ip=192.0.2.10::192.0.2.1:24:node7:vlan50:none")
                && !given.contains("ipa-api-url"),
            "{given}"
        );
        let source = "source: the form on the console (this machine is node7";
        guest.console(source, DRAWING).await?;
        guest
            .console("vlan50 192.0.2.10/24 from the console", BOOT)
            .await?;
        heartbeat(lab).await?;
        guest
            .until_screen(&picture, "configured by the form on the console", DRAWING)
            .await?;
        guest.cut_power().await
    });
}

/// The host's only keyboard is a USB device, as a BMC emulates it. The ramdisk has the
/// drivers that the builder packs for servers.
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

/// The console on which the operator types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Console {
    Screen,
    Serial,
}

impl Console {
    /// Presses a key. On a serial line only `ret`, `down` and `ctrl-u` are possible.
    async fn press(self, guest: &mut Guest, key: &str) -> Result<()> {
        let characters = match (self, key) {
            (Self::Screen, key) => return guest.press(&[key]).await,
            (Self::Serial, "ret") => "\r",
            (Self::Serial, "down") => "\x1b[B",
            (Self::Serial, "ctrl-u") => "\x15",
            (Self::Serial, other) => anyhow::bail!("no characters for {other}"),
        };
        guest.type_on_serial(characters).await
    }

    async fn type_text(self, guest: &mut Guest, text: &str) -> Result<()> {
        match self {
            Self::Screen => type_text(guest, text).await,
            Self::Serial => guest.type_on_serial(text).await,
        }
    }

    /// Waits until the form shows the text.
    async fn shows(self, lab: &Lab, guest: &mut Guest, text: &str) -> Result<()> {
        match self {
            Self::Screen => {
                let picture = lab.log_path("service").with_extension("png");
                guest.until_screen(&picture, text, DRAWING).await
            }
            Self::Serial => guest.console(text, DRAWING).await.map(drop),
        }
    }
}

/// The password in the URL that the operator types. No console may show it.
const SECRET: &str = "s3cret";

/// The kernel arguments have a wrong DNS server and a wrong host name of the service.
/// The operator corrects both, adds a user and a password to the URL, and the agent
/// reaches the service.
async fn service_is_corrected(lab: &Lab, console: Console) -> Result<()> {
    let _names = DhcpServer::with(lab, &["--host-record=ironic.example.org,192.0.2.1"]).await?;
    let wrong = "http://wrong.example.org:6385";
    let plan = Plan {
        network: Network::Given(
            "ip=192.0.2.10::192.0.2.1:24::52-54-00-c0-ff-01:none nameserver=192.0.2.99",
        ),
        unattended: Some(format!(
            "ipa-api-url={wrong} ipa-inspection-callback-url={wrong}/v1/continue_inspection"
        )),
        ..Plan::default()
    };
    let mut site = plan.site(lab).await?;
    site.script.hold = true;
    let _services = site.serve(lab).await?;
    let mut guest = site.power_on(lab).await?;
    guest
        .console(&format!("no answer from {wrong}"), BOOT)
        .await?;
    console.press(&mut guest, "ret").await?;
    console.shows(lab, &mut guest, "[192.0.2.99]").await?;
    for _ in 0..6 {
        console.press(&mut guest, "down").await?;
    }
    console.press(&mut guest, "ctrl-u").await?;
    console.type_text(&mut guest, "192.0.2.1").await?;
    console.press(&mut guest, "down").await?;
    // Clears the field with the URL from the kernel arguments.
    console.press(&mut guest, "ctrl-u").await?;
    let url = format!("http://user:{SECRET}@ironic.example.org:6385");
    console.type_text(&mut guest, &url).await?;
    let shown = "[http://user:******@ironic.example.org:6385]";
    console.shows(lab, &mut guest, shown).await?;
    console.press(&mut guest, "ret").await?;
    console.press(&mut guest, "ret").await?;
    let given = guest.console("the form on the console gives: ip=", DRAWING);
    let given = given.await?.text;
    let expected = "nameserver=192.0.2.1 ipa-api-url=http://***@ironic.example.org:6385 \
                    ipa-inspection-callback-url=http://***@ironic.example.org:6385/v1/continue_inspection";
    ensure!(given.ends_with(expected), "{given}");
    let is_inventory = |event: &Event| {
        event.source == Source::Conductor && event.text.starts_with("continue_inspection 202")
    };
    let start = lab.journal.start();
    lab.journal
        .wait_for("the inventory", start, BOOT, is_inventory)
        .await?;
    heartbeat(lab).await?;
    let picture = lab.log_path("after").with_extension("png");
    let mut seen = vec![guest.vga_text(&picture).await?];
    let events = lab.journal.events().into_iter();
    seen.extend(
        events
            .filter(|event| event.source == Source::Console)
            .map(|event| event.text),
    );
    for text in seen {
        ensure!(!text.contains(SECRET), "the password is shown: {text}");
    }
    guest.cut_power().await
}

#[test]
fn a_wrong_url_and_dns_server_are_corrected_on_the_screen() {
    host_test("a_wrong_url_is_corrected_on_the_screen", async |lab| {
        service_is_corrected(lab, Console::Screen).await
    });
}

#[test]
fn a_wrong_url_and_dns_server_are_corrected_on_a_serial_line() {
    host_test("a_wrong_url_is_corrected_on_a_serial_line", async |lab| {
        service_is_corrected(lab, Console::Serial).await
    });
}
