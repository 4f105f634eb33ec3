//! `LANDFALL_LAB=keep`: the lab stays until it is told to go.

use std::io::Write;

use anyhow::Result;
use nix::unistd::gettid;
use tokio::signal::unix::{SignalKind, signal};

use super::configuration::Configuration;
use super::life::NODE;
use crate::lab::Lab;

/// Whether the developer wants to look around.
#[must_use]
pub fn wanted() -> bool {
    std::env::var("LANDFALL_LAB").is_ok_and(|value| value == "keep")
}

/// Says how to use the lab and waits for Ctrl-C or SIGTERM.
pub async fn until_interrupted(lab: &Lab, configuration: &Configuration) -> Result<()> {
    // Not eprintln: libtest would keep it until the test has ended.
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
    let tool = super::environment().join("venv/bin");
    let console = lab.log_path("console");
    let log = lab.log_path("ironic");
    // The namespaces belong to a thread; /proc has it like a process.
    let thread = gettid();
    format!(
        "
The lab is up. It ends with Ctrl-C, and leaves nothing but its logs.

  a shell in it      nsenter -t {thread} -n -m
  Ironic             {api}    (no authentication; the node is {NODE})
  BMC (Redfish)      {bmc}    (any user and password)
  the console        tail -f {console}
  Ironic's log       tail -f {log}
  Ironic's programs  {tool}

In that shell:

  H='X-OpenStack-Ironic-API-Version: latest'
  curl -s -H \"$H\" {api}/v1/nodes/{NODE} | python3 -m json.tool
  curl -s -H \"$H\" -H 'Content-Type: application/json' -X PUT \\
      -d '{{\"target\": \"deleted\"}}' {api}/v1/nodes/{NODE}/states/provision
  virsh -c qemu:///system list --all
",
        tool = tool.display(),
        console = console.display(),
        log = log.display(),
    )
}
