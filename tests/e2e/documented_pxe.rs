//! Boots hosts from a server that is set up as docs/upi-pxe.md describes: with its
//! commands, its dnsmasq configuration and its menus.
//!
//! The lab's HTTP server replaces nginx. QEMU's BIOS has no PXE client other than iPXE, so no
//! host starts `undionly.kpxe`: a test only downloads it by TFTP.
//! tests/documentation/tests/dhcp_examples.rs checks the syntax of the Kea configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use landfall_documentation::page::page;
use landfall_documentation::{Block, Use, blocks};
use landfall_tests::artifacts::{self, Packing};
use landfall_tests::dhcp_server::DhcpServer;
use landfall_tests::ignition::{INSTALLED_SYSTEM_OK, Proof};
use landfall_tests::image_server::ImageServer;
use landfall_tests::installation::{BOOT, DEPLOYMENT, FIRST_BOOT, POWER_OFF};
use landfall_tests::journal::{Source, ensure_contains};
use landfall_tests::lab::Lab;
use landfall_tests::program;
use landfall_tests::site::Plan;
use landfall_tests::vm::{Boot, Bus, Firmware, Guest, Machine};

use crate::host_test;
use crate::three_hosts::ensure_blank;

const PAGE: &str = "docs/upi-pxe.md";

/// The name that the page gives to the CoreOS image. Here it is the test image.
const IMAGE: &str = "rhcos-metal.x86_64.raw.gz";

const ROLES: [&str; 3] = ["bootstrap", "master", "worker"];

/// A machine of the page.
struct Host {
    role: &'static str,
    mac: &'static str,
    address: &'static str,
}

const MASTER: Host = Host {
    role: "master",
    mac: "52:54:00:00:00:11",
    address: "192.0.2.11",
};

const WORKER: Host = Host {
    role: "worker",
    mac: "52:54:00:00:00:21",
    address: "192.0.2.21",
};

/// A MAC address that no line of the page has.
const STRANGER: &str = "52:54:00:00:00:99";

/// The texts that the tests replace in the blocks of the page. The addresses and MAC
/// addresses are not in this table, because the lab uses the same ones as the page.
fn replaced(root: &Path) -> Result<[(&'static str, String); 4]> {
    const CONSOLE: &str = "console=ttyS0,115200n8";
    Ok([
        (
            "target/x86_64-unknown-linux-gnu/release/landfall-agent",
            artifacts::agent()?.display().to_string(),
        ),
        (
            "out/packages/linux-image-*.deb",
            artifacts::kernel_deb()?.display().to_string(),
        ),
        ("/srv/landfall", root.display().to_string()),
        // As in TEST_ARGUMENTS: an emulated machine can die in the kernel's check of its timer.
        (CONSOLE, format!("{CONSOLE} no_timer_check")),
    ])
}

/// The blocks of the page, for a server whose TFTP and HTTP directory is `root`.
fn read_page(root: &Path) -> Result<Vec<Block>> {
    let mut found = blocks(&page(PAGE)?);
    for (from, to) in replaced(root)? {
        let is_shown = found.iter().any(|block| block.text.contains(from));
        ensure!(is_shown, "{PAGE}: expected '{from}' in a block, found none");
        for block in &mut found {
            block.text = block.text.replace(from, &to);
        }
    }
    Ok(found)
}

/// The text of the first block that contains `part`.
fn text_with<'a>(blocks: &'a [Block], part: &str) -> Result<&'a str> {
    let block = blocks.iter().find(|block| block.text.contains(part));
    let block = block.with_context(|| format!("{PAGE}: expected a block with '{part}'"))?;
    Ok(&block.text)
}

/// Saves the page's block whose fence has `file=NAME`.
fn save(blocks: &[Block], name: &str, to: &Path) -> Result<()> {
    let used = Use::File(Some(name.to_owned()));
    let block = blocks.iter().find(|block| block.used == used);
    let block = block.with_context(|| format!("{PAGE}: expected a block with file={name}"))?;
    std::fs::write(to, &block.text).with_context(|| format!("writing {}", to.display()))
}

/// Runs commands of the page in the test's folder, and returns what they print.
async fn run(lab: &Lab, commands: &str) -> Result<String> {
    let builder = artifacts::builder()?;
    let programs = builder.parent().context("the builder has no folder")?;
    let script = format!(
        "cd '{}'\nPATH=\"{}:$PATH\"\n{commands}",
        lab.path(".").display(),
        programs.display()
    );
    let output = program::run("sh", &["-euc", &script]).await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The server of the page.
struct Server {
    blocks: Vec<Block>,
    /// The Ignition config of each role.
    proofs: BTreeMap<&'static str, Proof>,
    http: ImageServer,
    _dnsmasq: DhcpServer,
}

impl Server {
    /// Does what sections 1 to 3 of the page say.
    async fn set_up(lab: &Lab) -> Result<Self> {
        let root = lab.path("landfall");
        let blocks = read_page(&root)?;
        // Make the files that openshift-install would make, and the image that the page
        // uses.
        let site = lab.path("site");
        std::fs::create_dir(&site)?;
        // No test looks at the host name of a proof.
        let proofs = BTreeMap::from(ROLES.map(|role| (role, Proof::new(role))));
        for (role, proof) in &proofs {
            std::fs::write(site.join(format!("{role}.ign")), proof.config())?;
        }
        std::fs::copy(artifacts::coreos_image(Packing::Gz)?, lab.path(IMAGE))?;
        for command in ["landfall-image pxe ", "cp -r tree/. "] {
            run(lab, text_with(&blocks, command)?).await?;
        }
        save(&blocks, "menu.ipxe", &root.join("menu.ipxe"))?;
        save(&blocks, "grub.cfg", &root.join("grub/grub.cfg"))?;
        let folder = lab.path("dnsmasq.d");
        std::fs::create_dir(&folder)?;
        save(&blocks, "dnsmasq.conf", &folder.join("landfall.conf"))?;
        // Debian's service reads its configuration with this option, too.
        let option = format!("--conf-dir={}", folder.display());
        Ok(Self {
            blocks,
            proofs,
            http: ImageServer::start_over(lab, Vec::new(), Some(root)).await?,
            _dnsmasq: DhcpServer::with(lab, &[option]).await?,
        })
    }

    /// The console of a machine with this role, without the times. The page shows the
    /// console of a worker.
    fn console(&self, role: &str) -> Result<Vec<String>> {
        let shown = text_with(&self.blocks, "agent: installing to /dev/sda")?;
        let lines = shown.lines().filter_map(|line| line.split_once("] "));
        let config = format!("{role}.ign");
        Ok(lines
            .map(|(_, line)| line.replace("worker.ign", &config))
            .collect())
    }
}

/// A machine with a blank disk, which boots from the network after the disk.
async fn machine(lab: &Lab, firmware: Firmware, mac: &str) -> Result<Machine> {
    let plan = Plan {
        firmware,
        // The page's disk is /dev/sda.
        bus: Bus::VirtioScsi,
        ..Plan::default()
    };
    let site = plan.site(lab).await?;
    Ok(Machine {
        nics: vec![mac.to_owned()],
        processors: 2,
        boot: match firmware {
            Firmware::Bios => Boot::IpxeRom,
            Firmware::Uefi => Boot::FirmwarePxe,
        },
        ..site.machine
    })
}

/// Installs the host, from power on to the first boot of the installed system, without
/// intervention.
async fn installs(lab: &Lab, firmware: Firmware, host: &Host) -> Result<()> {
    let server = Server::set_up(lab).await?;
    let machine = machine(lab, firmware, host.mac).await?;
    let guest = Guest::start(lab, &machine).await?;
    // Fails early: a host that finds nothing to boot never prints this line.
    guest.console("init: landfall", BOOT).await?;
    let leased = format!("DHCPACK(br0) {} {} ", host.address, host.mac);
    lab.journal
        .line(Source::Dhcp, lab.journal.start(), &[&leased])?;
    let lines = server.console(host.role)?;
    ensure!(
        lines.len() == 3,
        "{PAGE}: expected 3 lines, found {lines:?}"
    );
    for line in lines {
        guest.console(&line, DEPLOYMENT).await?;
    }
    let reset = lab.journal.mark();
    guest.reset(DEPLOYMENT).await?;
    guest
        .console_after(reset, INSTALLED_SYSTEM_OK, FIRST_BOOT)
        .await?;
    guest.powered_off(POWER_OFF).await?;
    let proof = server.proofs[host.role].line();
    let value = proof.split(' ').next_back().context("no proof")?;
    lab.journal.line(Source::Console, reset, &[value])?;
    Ok(())
}

/// A worker boots with iPXE and `menu.ipxe`. The page shows the console of a worker.
#[test]
fn documented_pxe_bios() {
    host_test("documented_pxe_bios", async |lab| {
        installs(lab, Firmware::Bios, &WORKER).await
    });
}

/// A master boots with shim, GRUB and `grub.cfg`.
#[test]
#[ignore = "as pxe_uefi"]
fn documented_pxe_uefi() {
    host_test("documented_pxe_uefi", async |lab| {
        installs(lab, Firmware::Uefi, &MASTER).await?;
        // The boot entry that the agent made comes first.
        lab.journal
            .console_line(&["starting Boot", "\"Red Hat Enterprise Linux\""])?;
        Ok(())
    });
}

/// A machine without a line of its own waits at the menu, and boots with the role that
/// somebody chooses there.
#[test]
fn documented_pxe_menu() {
    host_test("documented_pxe_menu", async |lab| {
        const TITLE: &str = "Install OpenShift on this machine";
        let server = Server::set_up(lab).await?;
        let command = text_with(&server.blocks, "curl -so /dev/null tftp://")?;
        let command = { command.lines() }
            .find(|line| line.starts_with("curl "))
            .context("no command")?;
        let printed = run(lab, command).await?;
        ensure!(printed == "TFTP works\n", "{command}: found {printed:?}");

        let machine = machine(lab, Firmware::Bios, STRANGER).await?;
        let mut guest = Guest::start(lab, &machine).await?;
        let picture = lab.log_path("menu").with_extension("png");
        guest.until_screen(&picture, TITLE, BOOT).await?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let screen = guest.vga_text(&picture).await?;
        ensure_contains(&screen, &[TITLE])?;
        ensure_contains(&screen, &ROLES)?;
        let requests = server.http.requests("vmlinuz");
        ensure!(requests.is_empty(), "it did not wait: {requests:?}");
        machine.disks.iter().try_for_each(ensure_blank)?;

        // The second role.
        guest.press(&["down", "ret"]).await?;
        let chosen = "coreos.inst.ignition_url=http://192.0.2.1:8080/master.ign";
        guest.console(chosen, BOOT).await?;
        guest.cut_power().await
    });
}
