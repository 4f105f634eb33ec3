//! Tests VLANs that a switch announces by LLDP, with a real lldpd at the other
//! end.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use landfall_tests::installation::BOOT;
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::TAPS;
use landfall_tests::program;
use landfall_tests::site::Plan;
use tokio::process::Child;

use crate::host_test;

/// Starts lldpd on the host's first tap. It announces two VLANs (IEEE 802.1Q annex
/// D: two bytes of VLAN ID, the length of the name, the name).
///
/// lldpd drops its privileges, and its user must reach the files in `directory`. So
/// `directory` must not be in the lab, which may be in root's home directory, where
/// other users have no access.
fn switch(directory: &Path) -> Result<Child> {
    let vlan =
        |value| format!("configure lldp custom-tlv add oui 00,80,c2 subtype 3 oui-info {value}\n");
    std::fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    let configuration = directory.join("lldpd.conf");
    let text = vlan("00,64,04,6c,61,62,31") + &vlan("0f,a0,04,6c,61,62,32");
    std::fs::write(&configuration, text + "configure lldp tx-interval 1\n")?;
    program::bound_to_this_thread("lldpd")
        .args(["-d", "-I", TAPS[0], "-S", "landfall-test-switch", "-u"])
        .arg(directory.join("lldpd.socket"))
        .arg("-O")
        .arg(configuration)
        .stderr(Stdio::null())
        .spawn()
        .context("starting lldpd")
}

fn is_report(event: &Event) -> bool {
    event.source == Source::Conductor && event.text.starts_with("continue_inspection 202")
}

#[test]
fn vlans_that_a_switch_names() {
    host_test("vlans_that_a_switch_names", async |lab| {
        let plan = Plan {
            // `lsm=yama` disables Landlock. The agent must parse LLDP frames without
            // it, and report that this part of the confinement is missing.
            more_arguments: "ipa-collect-lldp=1 ipa-enable-vlan-interfaces=all lsm=yama",
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.script.hold = true;
        let directory = tempfile::tempdir()?;
        let _switch = switch(directory.path())?;
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        lab.journal
            .wait_for("the inventory", lab.journal.start(), BOOT, is_report)
            .await?;
        let inventory = services.conductor.inventory().unwrap_or_default();
        let nics = inventory["inventory"]["interfaces"].as_array();
        let mut names: Vec<_> = { nics.into_iter().flatten() }
            .filter_map(|nic| nic["name"].as_str())
            .collect();
        names.sort_unstable();
        let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../out/logs/lldp.png");
        let port = format!("port {}", TAPS[0]);
        guest.until_screen(&picture, &port, BOOT).await?;
        ensure!(
            names == ["enp0s3", "enp0s3.100", "enp0s3.4000"],
            "the inventory has {names:?}"
        );
        lab.journal.console_line(&[
            "lack a part of their confinement (landlock: the kernel does not have it)",
        ])?;
        guest.cut_power().await
    });
}
