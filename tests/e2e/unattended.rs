//! Tests installations that `coreos.inst.*` kernel arguments request, without a
//! provisioning service.

use std::io::{ErrorKind, Read as _};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use flate2::read::GzDecoder;
use landfall_documentation::events_schema::{EventsSchema, Form};
use landfall_tests::conductor::script::Finish;
use landfall_tests::ignition::INSTALLED_SYSTEM_OK;
use landfall_tests::image_server::{self, Behaviour, ImageServer, ServedFile};
use landfall_tests::installation::{BOOT, DEPLOYMENT, FIRST_BOOT, POWER_OFF, check_applied};
use landfall_tests::journal::{Mark, Source, ensure_contains};
use landfall_tests::lab::{Family, GUEST_V4, Lab};
use landfall_tests::old_disk::{OldDisk, ensure_untouched};
use landfall_tests::site::{MAC, Network, Plan, Site, Way};
use landfall_tests::uefi_variables::UefiVariables;
use landfall_tests::vm::{Bus, Firmware, Guest};
use landfall_tests::webhook_receiver::WebhookReceiver;
use tokio::net::TcpStream;

use crate::host_test;

/// A static address, and the host name `node-1.example.org`.
pub(crate) const STATIC: &str = "ip=192.0.2.10::192.0.2.1:255.255.255.0:node-1.example.org::none \
    nameserver=192.0.2.1";

pub(crate) const IMAGE: &str = "coreos.raw.gz";
pub(crate) const CONFIG: &str = "worker.ign";

pub(crate) fn url(name: &str) -> String {
    image_server::url(Family::V4, name)
}

/// The arguments in the network boot menu of a current UPI installation (OpenShift on
/// user-provisioned infrastructure).
fn current_line(disk: &str) -> String {
    format!(
        "coreos.inst.install_dev={disk} coreos.inst.image_url={} coreos.inst.ignition_url={}",
        url(IMAGE),
        url(CONFIG)
    )
}

fn plan(order: String) -> Plan {
    Plan {
        network: Network::Given(STATIC),
        unattended: Some(order),
        ..Plan::default()
    }
}

pub(crate) fn config(content: impl Into<Vec<u8>>) -> ServedFile {
    ServedFile {
        name: CONFIG.to_owned(),
        content: content.into().into(),
        behaviour: Behaviour::default(),
    }
}

/// The site of `plan`. Its server also offers the Ignition config of the site's proof.
async fn site(lab: &Lab, plan: &Plan) -> Result<Site> {
    let mut site = plan.site(lab).await?;
    site.files.push(config(site.proof.config()));
    Ok(site)
}

/// Checks what the installed system shows after the machine's reset.
pub(crate) async fn boots(lab: &Lab, site: &Site, guest: Guest, reset: Mark) -> Result<()> {
    guest
        .console_after(reset, INSTALLED_SYSTEM_OK, FIRST_BOOT)
        .await?;
    guest.powered_off(POWER_OFF).await?;
    for text in [
        // The installed system prints the first-boot arguments, which contain the host
        // name from `ip=`.
        &*site.proof.line(),
        "TEST-INITRD: config.ign: mode 600 uid 0",
        "rd.neednet=1 ip=192.0.2.10::192.0.2.1:255.255.255.0:node-1.example.org::none",
    ] {
        lab.journal.line(Source::Console, reset, &[text])?;
    }
    // A conductor may run in the lab, but the host must not contact it.
    let asked = lab.journal.find(lab.journal.start(), |event| {
        event.source == Source::Conductor && event.text != "serving"
    });
    ensure!(asked.is_none(), "a service was asked: {asked:?}");
    Ok(())
}

/// Installs a host by this plan, from power on to the installed system, without
/// intervention.
async fn installs(lab: &Lab, plan: &Plan) -> Result<()> {
    let site = site(lab, plan).await?;
    let _services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    guest.console("init: landfall", BOOT).await?;
    guest.console("agent: installing to /dev/", BOOT).await?;
    let reset = lab.journal.mark();
    guest.reset(DEPLOYMENT).await?;
    boots(lab, &site, guest, reset).await
}

#[test]
fn unattended_uefi() {
    host_test("unattended_uefi", async |lab| {
        let webhook = WebhookReceiver::start(lab).await?;
        let plan = Plan {
            firmware: Firmware::Uefi,
            way: Way::Iso,
            bus: Bus::VirtioBlk,
            ..plan(format!(
                "{} coreos.inst.insecure landfall.webhook={}",
                current_line("/dev/vda"),
                WebhookReceiver::url()
            ))
        };
        installs(lab, &plan).await?;
        check_reports(&webhook.reports())?;
        // The firmware started the boot entry that the agent made, not its own entry
        // for the disk.
        lab.journal
            .console_line(&["starting Boot", "\"Red Hat Enterprise Linux\""])?;
        Ok(())
    });
}

fn fit_the_schema(reports: &[serde_json::Value]) -> Result<()> {
    let schema = EventsSchema::read()?;
    for report in reports {
        let fault = schema.fault(Form::Report, report);
        ensure!(fault.is_none(), "{fault:?}");
    }
    Ok(())
}

/// Checks the reports of an installation without a fault.
fn check_reports(reports: &[serde_json::Value]) -> Result<()> {
    fit_the_schema(reports)?;
    let events: Vec<&str> = { reports.iter() }
        .filter_map(|report| report["event"].as_str())
        .collect();
    ensure!(
        events.first() == Some(&"started") && events.last() == Some(&"done"),
        "{events:?}"
    );
    let between = &events[1..events.len() - 1];
    ensure!(
        !between.is_empty() && between.iter().all(|event| *event == "progress"),
        "{events:?}"
    );
    let done = &reports[reports.len() - 1];
    ensure!(
        done["v"] == 1
            && done["boot"] == reports[0]["boot"]
            && done["status"]["root_disk"]["path"] == "/dev/vda"
            && done["status"]["network"]["nics"][0]["mac"] == MAC,
        "{done:#}"
    );
    Ok(())
}

/// The exact arguments of the OpenShift 4.1 documentation: the disk by its bare
/// name, and an image without a digest or signature.
#[test]
#[ignore = "as unattended_uefi"]
fn unattended_old_line_bios_pxe() {
    host_test("unattended_old_line_bios_pxe", async |lab| {
        let plan = Plan {
            firmware: Firmware::Bios,
            way: Way::Pxe,
            ..plan(format!(
                "rd.neednet=1 coreos.inst=yes {}",
                current_line("vda")
            ))
        };
        installs(lab, &plan).await?;
        lab.journal.console_line(&["the image is not verified"])?;
        Ok(())
    });
}

/// The URL of the logs, which the console shows after a fatal error.
pub(crate) const LOGS: &str = "http://192.0.2.10:9999/logs.tar.gz";

/// Downloads the logs that the agent keeps after a fatal error, and unpacks them.
pub(crate) async fn kept_logs() -> Result<String> {
    // reqwest needs a crypto provider even for plain HTTP. An error means that one is
    // already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(10))
        .build()?;
    let answer = client.get(LOGS).send().await?.error_for_status()?;
    let packed = answer.bytes().await?;
    let mut logs = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut logs)?;
    Ok(logs)
}

/// Checks that the logs of the failed installation and the last report to the webhook
/// have the reason, and that neither has one of the planted secrets.
async fn check_kept_logs(reports: &[serde_json::Value]) -> Result<()> {
    let logs = kept_logs().await?;
    ensure_contains(
        &logs,
        &["FAILED install failed", "kernel: Linux version", "ip_addr"],
    )?;
    fit_the_schema(reports)?;
    let failed = reports.last().context("no report")?;
    let reason = failed["reason"]["text"].as_str().unwrap_or_default();
    ensure!(
        failed["event"] == "failed" && reason.contains("JSON"),
        "{failed:#}"
    );
    for text in [&logs, &format!("{reports:?}")] {
        let at = text.find("S3CRET");
        let near = at.map(|at| text[..at].lines().last());
        ensure!(near.is_none(), "a secret is shown: {near:?}");
    }
    Ok(())
}

/// The agent detects the invalid JSON in the Ignition config before it touches the
/// disk. The machine stays on, so that the operator can read the message.
#[test]
fn unattended_bad_config() {
    host_test("unattended_bad_config", async |lab| {
        let plan = Plan {
            disk_mib: 256,
            disk_before: OldDisk::Pattern,
            ..plan(format!(
                "{} coreos.inst.insecure vaultkey=S3CRET ipa-agent-token=S3CRET landfall.webhook={}",
                current_line("/dev/vda"),
                WebhookReceiver::url()
            ))
        };
        let webhook = WebhookReceiver::start(lab).await?;
        let mut site = plan.site(lab).await?;
        site.files
            .push(config("{\"ignition\": {\"version\": \"3.2.0\"}"));
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        let line = guest
            .console("agent: FAILED install failed: ", BOOT)
            .await?;
        ensure_contains(
            &line.text,
            &[&*url(CONFIG), "JSON", "reset this machine", LOGS],
        )?;
        // The machine must not reboot, and the agent must not retry.
        tokio::time::sleep(Duration::from_secs(15)).await;
        check_kept_logs(&webhook.reports()).await?;
        let requests = services.images.requests(CONFIG);
        ensure!(requests.len() == 1, "it was asked again: {requests:?}");
        let reset = lab.journal.find(lab.journal.start(), |event| {
            event.source == Source::Machine && event.text.starts_with("RESET")
        });
        ensure!(reset.is_none(), "the machine was reset: {reset:?}");
        guest.cut_power().await?;
        ensure_untouched(&site.machine.disks[0].path)
    });
}

/// Checks a host with `landfall.console=quiet` whose installation has failed.
async fn shows_only_problems(lab: &Lab, guest: &mut Guest) -> Result<()> {
    let picture = lab.log_path("quiet").with_extension("png");
    let problem = "agent: FAILED install failed: ";
    guest.until_screen(&picture, problem, BOOT).await?;
    let screen = guest.vga_text(&picture).await?;
    ensure!(
        !screen.contains(" Landfall ") && !screen.contains("installing to"),
        "expected problems only, found {screen}"
    );
    for part in ["init: landfall", "installing to"] {
        let line = lab.journal.console_line(&[part]);
        ensure!(line.is_err(), "it is not quiet: {line:?}");
    }
    Ok(())
}

/// No digest or signature verifies the image, and `coreos.inst.insecure` is missing.
/// The host reports this on its consoles, which show only problems. The host has no
/// status pages.
#[test]
fn unattended_unproven_image() {
    host_test("unattended_unproven_image", async |lab| {
        let plan = Plan {
            disk_mib: 256,
            disk_before: OldDisk::Pattern,
            ..plan(current_line("/dev/vda") + " landfall.console=quiet landfall.status=off")
        };
        let site = site(lab, &plan).await?;
        let _services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        let line = guest
            .console("agent: FAILED install failed: ", BOOT)
            .await?;
        ensure!(line.text.contains("signature"), "it says: {}", line.text);
        shows_only_problems(lab, &mut guest).await?;
        let pages = TcpStream::connect((GUEST_V4, 9999)).await;
        let fault = pages.map(drop).map_err(|error| error.kind());
        ensure!(
            fault == Err(ErrorKind::ConnectionRefused),
            "expected no status pages, found {fault:?}"
        );
        guest.cut_power().await?;
        ensure_untouched(&site.machine.disks[0].path)
    });
}

/// The firmware has no room for the boot entry. The disk is complete and boots from
/// the fallback loader, which firmware finds without an entry.
///
/// With so little free space OVMF copies its whole variable store at each start, byte
/// by byte through an emulated flash chip. That takes up to five minutes.
#[test]
#[ignore = "the firmware takes minutes"]
fn unattended_full_variable_store() {
    host_test("unattended_full_variable_store", async |lab| {
        // Linux refuses a write that would leave less than 5 KiB free
        // (arch/x86/platform/efi/quirks.c). OVMF needs some space for its own
        // variables.
        const FREE: usize = 9 << 10;
        const START: Duration = Duration::from_secs(900);
        let plan = Plan {
            firmware: Firmware::Uefi,
            ..plan(current_line("/dev/vda") + " coreos.inst.insecure coreos.inst.skip_reboot")
        };
        let site = site(lab, &plan).await?;
        let mut variables = UefiVariables::new(&site.machine.variables)?;
        variables.fill(FREE)?;
        variables.store()?;
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        let line = guest
            .console("continuing without a boot entry", START)
            .await?;
        ensure_contains(
            &line.text,
            &["/dev/vda is complete", "variable store is full"],
        )?;
        guest
            .console("because of coreos.inst.skip_reboot", POWER_OFF)
            .await?;
        let failed = lab.journal.console_line(&["install failed"]);
        ensure!(failed.is_err(), "it says {failed:?}");
        guest.shows_example(lab, "nvram-full", POWER_OFF).await?;
        let mut requests = services.images.requests(IMAGE);
        // The agent first fetches one byte to check that it can reach the server.
        requests.retain(|request| request.range.as_deref() != Some("bytes=0-0"));
        ensure!(requests.len() == 1, "the image was fetched: {requests:?}");
        guest.cut_power().await?;
        drop(services);
        let off = lab.journal.mark();
        let guest = site.power_on_from_disk(lab).await?;
        guest.console_after(off, INSTALLED_SYSTEM_OK, START).await?;
        boots(lab, &site, guest, off).await
    });
}

/// The image appears on the server while the agent retries. After the installation
/// the host stays on, and boots the installed system when an operator presses
/// Ctrl-Alt-Del.
#[test]
fn unattended_late_image_and_skip_reboot() {
    host_test("unattended_late_image_and_skip_reboot", async |lab| {
        const LATE: &str = "late.raw.gz";
        let mut plan = Plan {
            bus: Bus::VirtioScsi,
            ..plan(String::new())
        };
        let digest = landfall_tests::artifacts::coreos_image_sha256(plan.packing)?;
        plan.unattended = Some(format!(
            "coreos.inst.install_dev=/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_disk0 \
             coreos.inst.image_url={} coreos.inst.ignition_url={} coreos.inst.skip_reboot \
             landfall.coreos.inst.image_digest=sha256:{digest}",
            url(LATE),
            url(CONFIG)
        ));
        let site = site(lab, &plan).await?;
        let folder = lab.path("served");
        std::fs::create_dir(&folder)?;
        let _images =
            ImageServer::start_over(lab, site.files.clone(), Some(folder.clone())).await?;
        let mut guest = site.power_on(lab).await?;
        let line = guest
            .console("agent: FAILED install failed: ", BOOT)
            .await?;
        ensure_contains(&line.text, &[&*url(LATE), "404", "trying again in"])?;
        std::fs::write(folder.join(LATE), &site.files[0].content)?;
        let line = guest
            .console("because of coreos.inst.skip_reboot", DEPLOYMENT)
            .await?;
        ensure!(line.text.contains("installed"), "it says: {}", line.text);
        let unverified = lab.journal.console_line(&["written unverified"]);
        ensure!(unverified.is_err(), "the digest was not looked at");
        guest.shows_example(lab, "done", BOOT).await?;
        guest.press_ctrl_alt_del().await?;
        // With a direct boot QEMU exits at a reset.
        guest.powered_off(POWER_OFF).await?;
        let reset = lab.journal.mark();
        let guest = site.power_on_from_disk(lab).await?;
        boots(lab, &site, guest, reset).await
    });
}

/// Fails if the machine ran its firmware after `mark`.
fn ensure_no_firmware(lab: &Lab, mark: Mark) -> Result<()> {
    let firmware = lab.journal.find(mark, |event| {
        let reset = event.source == Source::Machine && event.text.starts_with("RESET");
        let loader = ["BdsDxe", "SeaBIOS", "GRUB"];
        reset || loader.iter().any(|name| event.text.contains(name))
    });
    ensure!(
        firmware.is_none(),
        "not straight from kernel to kernel: {firmware:?}"
    );
    Ok(())
}

const KEXEC: &str = "init: starting the installed system's kernel now";

#[test]
fn kexec_unattended_uefi() {
    host_test("kexec_unattended_uefi", async |lab| {
        let plan = Plan {
            firmware: Firmware::Uefi,
            way: Way::Iso,
            ..plan(current_line("/dev/vda") + " coreos.inst.insecure landfall.kexec=1")
        };
        let site = site(lab, &plan).await?;
        let _services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        guest.console("agent: installing to /dev/", BOOT).await?;
        guest.console(KEXEC, DEPLOYMENT).await?;
        let mark = lab.journal.mark();
        boots(lab, &site, guest, mark).await?;
        ensure_no_firmware(lab, mark)
    });
}

/// If Ironic leaves the reboot to the agent, the agent may use kexec.
#[test]
#[ignore = "as kexec_unattended_uefi"]
fn kexec_by_run_image() {
    host_test("kexec_by_run_image", async |lab| {
        let plan = Plan {
            finish: Finish::Reboot,
            more_arguments: "landfall.kexec=1",
            ..Plan::default()
        };
        let site = plan.site(lab).await?;
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        services.conductor.deployed(BOOT + DEPLOYMENT).await?;
        guest.console(KEXEC, POWER_OFF).await?;
        let mark = lab.journal.mark();
        guest
            .console_after(mark, INSTALLED_SYSTEM_OK, FIRST_BOOT)
            .await?;
        guest.powered_off(POWER_OFF).await?;
        check_applied(&lab.journal, mark, &site.proof)?;
        ensure_no_firmware(lab, mark)
    });
}
