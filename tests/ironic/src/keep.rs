//! Keeps a lab running until it is interrupted (`LANDFALL_LAB=keep`).

use std::io::Write;

use anyhow::Result;
use landfall_tests::lab::Lab;
use nix::unistd::gettid;
use tokio::signal::unix::{SignalKind, signal};

use super::configuration::Configuration;
use super::plan::NODE;

/// Whether the developer wants to keep the lab.
#[must_use]
pub fn wanted() -> bool {
    std::env::var("LANDFALL_LAB").is_ok_and(|value| value == "keep")
}

/// Prints how to use the lab, and waits for Ctrl-C or SIGTERM.
pub async fn until_interrupted(lab: &Lab, configuration: &Configuration) -> Result<()> {
    // Do not use eprintln: libtest would hold the text back until the test ends.
    std::io::stderr().write_all(manual(lab, configuration).as_bytes())?;
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn manual(lab: &Lab, configuration: &Configuration) -> String {
    let api = configuration.api_url();
    let bmc = configuration.bmc_url();
    let tools = super::environment().join("venv/bin");
    let console = lab.log_path("console");
    let log = lab.log_path("ironic");
    // The namespaces belong to a thread, which has its own entry in /proc.
    let thread = gettid();
    format!(
        "
The lab is up. It ends with Ctrl-C, and leaves nothing but its logs.

  a shell in it      nsenter -t {thread} -n -m
  Ironic             {api}    (no authentication; the node is {NODE})
  BMC (Redfish)      {bmc}    (any user and password)
  the console        tail -f {console}
  Ironic's log       tail -f {log}
  Ironic's programs  {tools}

In that shell:

  ironic() {{ curl -s -H 'X-OpenStack-Ironic-API-Version: latest' -H 'Content-Type: application/json' \"$@\"; echo; }}
  node={api}/v1/nodes/{NODE}
  ironic $node?fields=provision_state,power_state,last_error
  ironic -X PUT -d '{{\"target\": \"inspect\"}}' $node/states/provision
  ironic $node/inventory
  ironic -X PUT -d '{{\"target\": \"provide\"}}' $node/states/provision
  virsh -c qemu:///system list --all

",
        tools = tools.display(),
        console = console.display(),
        log = log.display(),
    )
}
