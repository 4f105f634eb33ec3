//! Faults of the host and of the world around it.

use std::time::Duration;

use anyhow::{Result, ensure};
use landfall_tests::conductor::Conductor;
use landfall_tests::installation::{BOOT, DEPLOYMENT, deploy_and_boot};
use landfall_tests::lab::Lab;
use landfall_tests::site::{Plan, Services, Site};
use landfall_tests::vm::Guest;

use crate::host_test;
use crate::image_faults::does_not_boot;

#[test]
fn service_comes_late() {
    host_test("service_comes_late", async |lab| {
        let mut site = Plan::default().site(lab).await?;
        site.script.hold = true;
        let guest = site.power_on(lab).await?;
        // It says where it is looking, what came back, and goes on looking with
        // growing pauses.
        let refused = "no answer from http://192.0.2.1:6385: ";
        let mut at = guest.console(refused, BOOT).await?.at;
        let mut pauses = Vec::new();
        for _ in 0..3 {
            let mark = lab.journal.mark();
            let again = guest.console_after(mark, refused, BOOT).await?.at;
            pauses.push(again - at);
            at = again;
        }
        ensure!(
            pauses.last() > pauses.first(),
            "the pauses do not grow: {pauses:?}"
        );
        let conductor = Conductor::start(lab, site.script.clone()).await?;
        let mark = lab.journal.mark();
        lab.journal
            .wait_for("a heartbeat", mark, BOOT, |event| {
                event.text == "heartbeat 202"
            })
            .await?;
        ensure!(
            conductor.lookups() == 1,
            "expected 1 lookup, found {}",
            conductor.lookups()
        );
        guest.cut_power().await
    });
}

#[test]
fn no_disk() {
    host_test("no_disk", async |lab| {
        // The usual patience is 30 s, before the inspection and again here.
        let plan = Plan {
            more_arguments: "ipa-disk-wait-attempts=2 ipa-disk-wait-delay=1",
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.machine.disks.clear();
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        let last_error = services.conductor.failed(BOOT + DEPLOYMENT).await?;
        ensure!(
            last_error.contains("no disk found"),
            "last_error is: {last_error}"
        );
        guest
            .console("commands: FAILED execute_deploy_step: ", BOOT)
            .await?;
        guest.cut_power().await
    });
}

#[test]
fn power_cut_while_writing() {
    host_test("power_cut_while_writing", async |lab| {
        let mut site = Plan::default().site(lab).await?;
        // Slow enough that the cut cannot miss.
        site.files[0].behaviour.bytes_per_second = Some(1024 * 1024);
        let _services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        writing(&guest).await?;
        guest.cut_power().await?;
        does_not_boot(lab, &site).await
    });
}

/// Waits until the agent reports progress of the write.
async fn writing(guest: &Guest) -> Result<()> {
    guest.console("disk: writing the image: ", BOOT).await?;
    Ok(())
}

/// Has the kernel kill the agent as it would when memory runs out: the largest
/// process that is not PID 1.
async fn kill_agent(lab: &Lab, guest: &mut Guest) -> Result<()> {
    let mark = lab.journal.mark();
    guest.sysrq(b'f').await?;
    guest
        .console_after(mark, "was killed by SIGKILL", Duration::from_secs(60))
        .await?;
    Ok(())
}

/// A direct boot whose kernel obeys SysRq on the serial console.
async fn site_with_sysrq(lab: &Lab) -> Result<(Plan, Site)> {
    let plan = Plan {
        more_arguments: "sysrq_always_enabled",
        ..Plan::default()
    };
    let site = plan.site(lab).await?;
    Ok((plan, site))
}

async fn second_lookup(lab: &Lab, services: &Services) -> Result<()> {
    let mark = lab.journal.mark();
    lab.journal
        .wait_for("the restarted agent's heartbeat", mark, BOOT, |event| {
            event.text == "heartbeat 202"
        })
        .await?;
    ensure!(services.conductor.lookups() == 2, "expected 2 lookups");
    Ok(())
}

#[test]
fn agent_is_killed_and_carries_on() {
    host_test("agent_is_killed_and_carries_on", async |lab| {
        let (plan, mut site) = site_with_sysrq(lab).await?;
        site.script.hold = true;
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        let mark = lab.journal.mark();
        lab.journal
            .wait_for("a heartbeat", mark, BOOT, |event| {
                event.text == "heartbeat 202"
            })
            .await?;
        services.conductor.release();
        kill_agent(lab, &mut guest).await?;
        second_lookup(lab, &services).await?;
        deploy_and_boot(lab, &plan, &site, &services, guest).await
    });
}

/// The write is lost with the agent, and is begun anew: an empty command list
/// would mean to Ironic that there is nothing to wait for.
#[test]
fn agent_is_killed_while_writing() {
    host_test("agent_is_killed_while_writing", async |lab| {
        let (plan, mut site) = site_with_sysrq(lab).await?;
        site.files[0].behaviour.bytes_per_second = Some(2 * 1024 * 1024);
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        writing(&guest).await?;
        let mark = lab.journal.mark();
        kill_agent(lab, &mut guest).await?;
        guest
            .console_after(mark, "execute_deploy_step was interrupted", BOOT)
            .await?;
        deploy_and_boot(lab, &plan, &site, &services, guest).await
    });
}
