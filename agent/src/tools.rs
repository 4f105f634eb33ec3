//! The sub-commands: each runs one stage and prints what it found or would do.
//! Data goes to stdout, talk to stderr.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use landfall_boot_params::{BootParams, CommandLine, NetArgs};
use landfall_network_plan::{NetworkPlan, describe};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::cli::{Command, CommandLineSource, WriteImage};
use crate::discovery::{self, Wanted};
use crate::disk::digest::{Algorithm, ExpectedDigest};
use crate::disk::fetch::Patience;
use crate::disk::target::Target;
use crate::disk::write_image::{ImageSource, write_image};
use crate::failure::{Class, Failure, Result};
use crate::http_client::{self, HttpOptions};
use crate::inventory::collect::{CollectOptions, collect};
use crate::permission::WritePermission;
use crate::report::{self, Output};
use crate::settings::Settings;

/// Runs one sub-command; the exit code is 0, or 1 after a failure.
pub fn run(command: Command, progress_json: bool, debug: bool) -> ExitCode {
    let output = if progress_json {
        Output::JsonLines
    } else {
        Output::Stderr
    };
    report::start(output, debug);
    let outcome = match command {
        // Not a tool: `main` runs the stages for it.
        Command::Run => Ok(()),
        Command::ShowParams(source) => show_params(&source),
        Command::PlanNetwork(source) => plan_network(&source),
        Command::Inventory { json } => show_inventory(json),
        Command::Discover {
            urls,
            insecure,
            json,
        } => discover(urls, insecure, json),
        Command::WriteImage(arguments) => write_image_to(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tracing::error!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn settings(source: &CommandLineSource) -> Result<Settings> {
    match &source.cmdline {
        Some(text) => Ok(Settings::from_command_line(CommandLine::parse(text))),
        None => Settings::of_this_boot().map_err(|error| {
            Failure::new(
                Class::CommandExecutionError,
                format!("/proc/cmdline: {error}"),
            )
        }),
    }
}

fn show_params(source: &CommandLineSource) -> Result<()> {
    let params: BootParams = settings(source)?.params;
    if source.json {
        let list: Vec<Value> = params
            .list()
            .iter()
            .map(|setting| {
                json!({
                    "key": setting.key,
                    "value": setting.value,
                    "origin": setting.origin.to_string(),
                })
            })
            .collect();
        println!("{}", json!({"settings": list, "warnings": params.warnings}));
        return Ok(());
    }
    for setting in params.list() {
        println!(
            "{:44} {:24} ({})",
            setting.key, setting.value, setting.origin
        );
    }
    for warning in &params.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}

fn plan_network(source: &CommandLineSource) -> Result<()> {
    let settings = settings(source)?;
    let arguments = NetArgs::from_command_line(&settings.command_line);
    if source.json {
        let plan = NetworkPlan::from_boot_args(&arguments);
        println!("{}", serde_json::to_value(&plan).unwrap_or_default());
        return Ok(());
    }
    for line in describe::describe(&NetworkPlan::for_boot(&arguments)) {
        println!("{line}");
    }
    Ok(())
}

fn show_inventory(as_json: bool) -> Result<()> {
    let options = CollectOptions {
        addresses: &BTreeMap::new(),
        bootif: None,
        hide_bmc_nics: false,
        ask_drivers: true,
    };
    let (inventory, warnings) = collect(Path::new("/"), options);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if as_json {
        println!("{}", serde_json::to_value(&inventory).unwrap_or_default());
        return Ok(());
    }
    let vendor = &inventory.system_vendor;
    println!(
        "{} {}, serial {}",
        vendor.manufacturer, vendor.product_name, vendor.serial_number
    );
    let memory = &inventory.memory;
    println!(
        "{} x {}, {} MiB, booted by {}",
        inventory.cpu.count,
        inventory.cpu.model_name,
        memory
            .physical_mb
            .or(memory.total.map(|bytes| bytes >> 20))
            .unwrap_or_default(),
        inventory.boot.current_boot_mode
    );
    for nic in &inventory.interfaces {
        println!(
            "nic  {:12} {} {} {}",
            nic.name,
            nic.mac_address,
            if nic.has_carrier { "up" } else { "no carrier" },
            nic.driver.as_deref().unwrap_or("")
        );
    }
    for disk in &inventory.disks {
        println!(
            "disk {:12} {:>10} {} {}",
            disk.name,
            report::mib(disk.size),
            disk.model.as_deref().unwrap_or("no model"),
            disk.serial.as_deref().unwrap_or("no serial")
        );
    }
    Ok(())
}

/// How long the tool looks: the agent itself never gives up, a person does.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

fn discover(urls: Vec<String>, insecure: bool, as_json: bool) -> Result<()> {
    let client = http_client::service_client(&HttpOptions {
        insecure,
        timeout: None,
    })?;
    let fault = |text: String| Failure::new(Class::CommandExecutionError, text);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| fault(error.to_string()))?;
    let places = urls.join(", ");
    let wanted = Wanted {
        urls,
        timeout: Duration::from_secs(10),
    };
    let (_never_changes, mut network) = watch::channel(());
    let search = discovery::find(&client, &wanted, &mut network);
    let found = runtime
        .block_on(async { tokio::time::timeout(DISCOVERY_LIMIT, search).await })
        .map_err(|_| {
            fault(format!(
                "nothing answered within {} s at {places}",
                DISCOVERY_LIMIT.as_secs()
            ))
        })?;
    if as_json {
        println!("{}", json!({"base": found.base, "source": found.source}));
    } else {
        println!("{} answers, reached from {}", found.base, found.source);
    }
    Ok(())
}

fn write_image_to(arguments: &WriteImage) -> Result<()> {
    let permission = if arguments.allow_this_machine {
        WritePermission::by_operator()
    } else {
        WritePermission::in_ramdisk()?
    };
    let digest = arguments
        .image_digest
        .as_deref()
        .map(expected_digest)
        .transpose()?;
    let client = http_client::image_client(&HttpOptions {
        insecure: arguments.insecure,
        timeout: None,
    })?;
    let source = ImageSource {
        urls: vec![arguments.url.clone()],
        digest,
        authorization: None,
        patience: Patience::default(),
    };
    let target = Target::open(Path::new(&arguments.disk), &permission)?;
    write_image(&source, target, &client)?.commit().map(drop)
}

/// `sha256:0123...`
fn expected_digest(text: &str) -> Result<ExpectedDigest> {
    let invalid = || {
        Failure::new(
            Class::InvalidCommandParamsError,
            format!("--image-digest: expected sha256:HEX or sha512:HEX, found {text}"),
        )
    };
    let (name, hex) = text.split_once(':').ok_or_else(invalid)?;
    ExpectedDigest::new(Algorithm::by_name(name).ok_or_else(invalid)?, hex)
}
