//! Runs the deployment, driven by heartbeats like Ironic's deploy interfaces.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::agent_client::{AgentClient, Command};
use super::script::{Finish, Method};
use super::{ProvisionState, Shared, node};

/// Ironic's pause between two polls of a command with `poll=True`.
const POLL_PAUSE: Duration = Duration::from_secs(6);
/// The maximum number of polls of such a command.
const POLL_LIMIT: usize = 100;

/// State that is kept from one heartbeat to the next.
#[derive(Default)]
struct Progress {
    hardware_versions: Option<Value>,
    step_given: bool,
    failures: usize,
}

/// Handles heartbeats until the deployment has ended.
pub(super) async fn drive(shared: Arc<Shared>, mut heartbeats: mpsc::Receiver<()>) {
    let mut progress = Progress::default();
    while heartbeats.recv().await.is_some() {
        let held = shared.memory().held;
        if held {
            if shared.script.poll_while_held
                && let Err(error) = poll(&shared).await
            {
                shared.complain(format!("list of commands: {error:#}"));
            }
            continue;
        }
        let end = match at_heartbeat(&shared, &mut progress).await {
            Ok(false) => continue,
            Ok(true) => ProvisionState::Active,
            Err(error) => {
                let last_error = format!("{error:#}");
                shared.note(format!("deploy failed: {last_error}"));
                collect_logs(&shared).await;
                ProvisionState::DeployFailed(last_error)
            }
        };
        // Forget the token, as Ironic does as soon as the node leaves the wait state.
        let memory = &mut *shared.memory();
        memory.token = None;
        memory.state.send_replace(end);
        return;
    }
}

fn client(shared: &Shared) -> Result<AgentClient> {
    let memory = shared.memory();
    // An accepted heartbeat has a URL, the token, and the certificate, unless the agent
    // left the certificate out.
    let (Some(url), Some(ca), Some(token)) =
        (&memory.callback_url, &memory.verify_ca, &memory.token)
    else {
        bail!("no heartbeat has been accepted");
    };
    AgentClient::new(url, ca, token)
}

async fn poll(shared: &Shared) -> Result<()> {
    let list = client(shared)?.list().await?;
    ensure!(list.is_empty(), "expected no command, found {list:?}");
    Ok(())
}

/// Sends the next command, if it is time for one. Returns true when the last command
/// has been sent.
async fn at_heartbeat(shared: &Shared, progress: &mut Progress) -> Result<bool> {
    let agent = client(shared)?;
    if progress.hardware_versions.is_none() {
        progress.hardware_versions = Some(read_steps(shared, &agent).await?);
    }
    let list = agent.list().await?;
    let last = list
        .iter()
        .rfind(|command| !command.name.starts_with("get_"));
    let Some(last) = last else {
        if progress.step_given {
            // Ironic would take this for a fresh boot and continue with the step
            // after the lost one.
            shared.complain("the agent has forgotten the deploy step it was given");
        }
        give_step(shared, &agent, progress).await?;
        return Ok(false);
    };
    shared.note(format!(
        "command list ends with {} {}",
        last.name, last.status
    ));
    let operation = shared.script.method.operation();
    if last.name != format!("execute_{operation}_step") {
        return Ok(false);
    }
    match last.status.as_str() {
        "RUNNING" => Ok(false),
        "SUCCEEDED" => {
            let step = &last.result[format!("{operation}_step")];
            ensure!(
                *step == node::step(&shared.script),
                "expected the {operation}_step that was sent, found {step}"
            );
            after_step(shared, &agent).await?;
            Ok(true)
        }
        "FAILED" if progress.failures < expected_failures(shared) => {
            progress.failures += 1;
            shared.note(format!("the step failed: {}", last.error_text()));
            give_step(shared, &agent, progress).await?;
            Ok(false)
        }
        "FAILED" => bail!("{}", last.error_text()),
        other => bail!("unexpected command_status {other}"),
    }
}

fn expected_failures(shared: &Shared) -> usize {
    match shared.script.method {
        Method::AssistedInstall { failures } => failures,
        Method::InstallCoreos { .. } | Method::WriteImage { .. } | Method::Clean { .. } => 0,
    }
}

/// Sends `get_deploy_steps` (or `get_clean_steps`), and checks that the agent offers
/// the script's step. Returns `hardware_manager_version`.
async fn read_steps(shared: &Shared, agent: &AgentClient) -> Result<Value> {
    let operation = shared.script.method.operation();
    let name = format!("{operation}.get_{operation}_steps");
    shared.note(format!("command {name}"));
    let params = json!({
        "node": node::full(&shared.script, &json!({}), false),
        "ports": node::ports(&shared.script),
    });
    let command = agent.command(&name, &params, true).await?;
    ensure!(
        command.status == "SUCCEEDED",
        "{name}: {}",
        command.error_text()
    );
    let key = format!("{operation}_steps");
    let managers = command.result[&key]
        .as_object()
        .with_context(|| format!("expected {key} by manager, found {}", command.result))?;
    let wanted = shared.script.method.step_name();
    let interface = shared.script.method.step_interface();
    let offered: Vec<&Value> = managers
        .values()
        .filter_map(Value::as_array)
        .flatten()
        .collect();
    for step in &offered {
        // Ironic rejects the whole list if one of these members is missing.
        for member in ["interface", "step", "priority"] {
            ensure!(
                step.get(member).is_some(),
                "the step {step} has no {member}"
            );
        }
    }
    ensure!(
        offered
            .iter()
            .any(|step| step["step"] == wanted && step["interface"] == interface),
        "the agent does not offer the {operation} step {wanted} of the interface {interface}"
    );
    let versions = command.result["hardware_manager_version"].clone();
    ensure!(
        versions.is_object(),
        "expected hardware_manager_version, found {versions}"
    );
    Ok(versions)
}

async fn give_step(shared: &Shared, agent: &AgentClient, progress: &mut Progress) -> Result<()> {
    let step = node::step(&shared.script);
    let operation = shared.script.method.operation();
    let name = format!("{operation}.execute_{operation}_step");
    shared.note(format!(
        "command {name} {}",
        shared.script.method.step_name()
    ));
    let params = json!({
        "step": step,
        "node": node::full(&shared.script, &step, true),
        "ports": node::ports(&shared.script),
        format!("{operation}_version"): progress.hardware_versions,
    });
    progress.step_given = true;
    let command = agent.command(&name, &params, false).await?;
    ensure!(
        command.status == "RUNNING",
        "{name}: {}: {}",
        command.status,
        command.error_text()
    );
    Ok(())
}

/// Sends the commands that follow the step in the deploy interface, up to the last
/// one.
async fn after_step(shared: &Shared, agent: &AgentClient) -> Result<()> {
    if let Method::WriteImage { .. } = shared.script.method {
        shared.note("command standby.get_partition_uuids");
        let uuids = agent
            .command("standby.get_partition_uuids", &json!({}), true)
            .await?;
        ensure!(
            uuids.status == "SUCCEEDED",
            "get_partition_uuids: {}",
            uuids.error_text()
        );
        // Ironic requests a boot loader entry for a whole-disk image only under
        // UEFI.
        if shared.script.uefi {
            install_bootloader(shared, agent, &uuids.result).await?;
        }
    }
    let name = match shared.script.finish {
        Finish::PowerOff => "standby.power_off",
        Finish::Reboot => "standby.run_image",
    };
    shared.note(format!("command {name}"));
    agent.command(name, &json!({}), false).await?;
    shared.note("deployed");
    Ok(())
}

async fn install_bootloader(shared: &Shared, agent: &AgentClient, uuids: &Value) -> Result<()> {
    const NAME: &str = "install_bootloader";
    shared.note("command image.install_bootloader");
    let params = json!({
        "root_uuid": uuids.get("root uuid"),
        "efi_system_part_uuid": uuids.get("efi system partition uuid"),
        "prep_boot_part_uuid": uuids.get("PReP Boot partition uuid"),
        "target_boot_mode": "uefi",
    });
    agent
        .command("image.install_bootloader", &params, false)
        .await?;
    for _ in 0..POLL_LIMIT {
        let list = agent.list().await?;
        let last = list.iter().rfind(|command| command.name == NAME);
        match last.map(|command| command.status.as_str()) {
            Some("SUCCEEDED") => return Ok(()),
            Some("RUNNING") => tokio::time::sleep(POLL_PAUSE).await,
            _ => bail!(
                "{NAME}: {}",
                last.map_or_else(|| "not in the list".into(), Command::error_text)
            ),
        }
    }
    bail!("{NAME}: no end after {POLL_LIMIT} polls")
}

/// Collects the agent's logs after a failure, as with Ironic's default for
/// `[agent]deploy_logs_collect`. If the command fails, there are no logs.
async fn collect_logs(shared: &Shared) {
    let Ok(agent) = client(shared) else { return };
    shared.note("command log.collect_system_logs");
    match agent
        .command("log.collect_system_logs", &json!({}), true)
        .await
    {
        Ok(command) => {
            let logs = command.result["system_logs"].as_str().map(str::to_owned);
            shared.memory().logs = logs;
        }
        Err(error) => shared.note(format!("no logs: {error:#}")),
    }
}
