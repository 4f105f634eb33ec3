//! `make demo`: a whole installation of one virtual host, with live output.

#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use landfall_tests::artifacts::{self, Packing};
use landfall_tests::conductor::script::Finish;
use landfall_tests::host_arguments::{BootMedium, HostArguments};
use landfall_tests::ignition::INSTALLED_SYSTEM_OK;
use landfall_tests::installation::deploy_and_boot;
use landfall_tests::journal::{Event, Journal};
use landfall_tests::lab::{self, Lab};
use landfall_tests::site::{Deploy, MEMORY_MIB, Network, Plan, Way};
use landfall_tests::timeline;
use landfall_tests::vm::{Bus, Firmware};

/// Installs a virtual host from scratch: boot medium, agent, image, Ignition.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    host: HostArguments,
}

impl Arguments {
    fn plan(&self) -> Plan {
        Plan {
            firmware: self.host.firmware,
            way: match self.host.boot {
                BootMedium::Iso => Way::Iso,
                BootMedium::Pxe => Way::Pxe,
            },
            network: Network::StaticV4,
            packing: Packing::Gz,
            deploy: Deploy::InstallCoreos,
            bus: Bus::VirtioScsi,
            finish: Finish::Reboot,
            ..Plan::default()
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = arguments.plan();
    println!(
        "A host ({}) with an empty disk, {MEMORY_MIB} MiB of RAM, firmware {}; it boots by {}.",
        artifacts::arch(),
        spelled(arguments.host.firmware),
        spelled(arguments.host.boot)
    );
    println!("Seconds since power on, on this machine's clock:\n");
    let journal = Journal::new(Some(Box::new(show)));
    let result = lab::run_with_journal("demo", journal.clone(), async |lab: &Lab| {
        install(lab, &plan).await
    });
    let events = journal.events();
    match result {
        Ok(media) => {
            summary(&events, &media);
            ExitCode::SUCCESS
        }
        Err(error) => {
            if let Some(milestone) = timeline::missing(&events) {
                println!("\nFAILED: {} was not reached.", milestone.name);
            }
            println!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The value as `--help` spells it.
fn spelled(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Installs the host and boots the installed system. Returns the name and size in bytes
/// of each boot artifact.
async fn install(lab: &Lab, plan: &Plan) -> Result<Vec<(&'static str, u64)>> {
    ensure!(
        artifacts::arch().has_bios() || plan.firmware == Firmware::Uefi,
        "hosts with {} have no BIOS: expected the firmware uefi, found bios",
        artifacts::arch()
    );
    let site = plan.site(lab).await?;
    let mut media = vec![("initramfs", artifacts::ramdisk()?.metadata()?.len())];
    if let Some(iso) = site.machine.boot.medium() {
        media.push(("ISO", iso.metadata()?.len()));
    }
    let services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    deploy_and_boot(lab, plan, &site, &services, guest).await?;
    Ok(media)
}

/// The number of characters that fit next to time and speaker on a terminal of
/// 120 columns. The log has the whole text.
const WIDTH: usize = 98;

/// Prints one line of the timeline as it happens.
fn show(event: &Event) {
    static POWER_ON: OnceLock<Duration> = OnceLock::new();
    if event.text.starts_with("power on") {
        POWER_ON.get_or_init(|| event.at);
    }
    let (Some((who, text)), Some(power_on)) = (timeline::describe(event), POWER_ON.get()) else {
        return;
    };
    let seconds = event.at.saturating_sub(*power_on).as_secs_f64();
    let more = if text.chars().count() > WIDTH {
        ".."
    } else {
        ""
    };
    println!("{seconds:7.2}  {who:<10} {text:.WIDTH$}{more}");
}

fn summary(events: &[Event], media: &[(&str, u64)]) {
    let reached = timeline::reached(events);
    println!("\n{:<36} {:>8}   stage", "reached", "seconds");
    let mut last = None;
    for (milestone, at) in &reached {
        let took = last.map_or(0.0, |last: Duration| (*at - last).as_secs_f64());
        println!("{:<36} {took:8.2}   {}", milestone.name, milestone.stage);
        last = Some(*at);
    }
    let time_of = |name: &str| {
        reached
            .iter()
            .find(|(m, _)| m.name == name)
            .map(|(_, at)| *at)
    };
    if let (Some(kernel), Some(init), Some(lookup)) = (
        time_of("the kernel's first line"),
        time_of("/init"),
        time_of("the first lookup"),
    ) {
        println!(
            "\nkernel start to /init {:.2} s, to the first lookup {:.2} s",
            (init - kernel).as_secs_f64(),
            (lookup - kernel).as_secs_f64()
        );
    }
    for (name, bytes) in media {
        println!("{name}: {:.1} MB", *bytes as f64 / 1e6);
    }
    let memory = events.iter().rev().find_map(|event| {
        let (_, text) = timeline::agent_line(&event.text)?;
        text.starts_with("agent memory").then(|| text.to_owned())
    });
    println!(
        "{}",
        memory.unwrap_or_else(|| "agent memory: not reported".to_owned())
    );
    for event in events
        .iter()
        .filter(|event| event.text.contains(INSTALLED_SYSTEM_OK))
    {
        println!("\n{}", event.text);
    }
}
