//! The arguments of `landfall-image coreos-live`.

use std::path::PathBuf;

use clap::Args;

use super::{HostArguments, OutputArguments};
use crate::live_ignition::FileUrl;

/// Write the Ignition config for a CoreOS live system.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image coreos-live --agent PATH --agent-url URL [OPTIONS] -o FILE",
    after_help = "\
Example:
  landfall-image coreos-live --agent ./landfall-agent-live \\
      --agent-url http://192.0.2.1:8080/landfall-agent-live \\
      --api-url http://192.0.2.1:6385 \\
      --inspection-callback-url \\
        http://192.0.2.1:6385/v1/continue_inspection -o live.ign
  coreos-installer iso ignition embed -i live.ign rhcos-live.iso

Ignition downloads the agent from --agent-url and checks its SHA-512 against
the file of --agent. Build this agent with `make live-agent`: the agent of the
ramdisk cannot use D-Bus. systemd runs the agent as landfall-agent.service."
)]
pub(crate) struct CoreosLiveArguments {
    /// The agent: a static program with the feature live-system
    #[arg(long, value_name = "PATH")]
    pub(crate) agent: PathBuf,
    /// Where the live system fetches the same file from
    #[arg(long, value_name = "URL")]
    pub(crate) agent_url: FileUrl,
    /// URLs of Ironic, separated by commas
    #[arg(long, value_name = "URL")]
    pub(crate) api_url: Option<String>,
    /// URL that receives the inventory
    #[arg(long, value_name = "URL")]
    pub(crate) inspection_callback_url: Option<String>,
    /// Accept any server certificate
    #[arg(long, conflicts_with = "ca_file")]
    pub(crate) insecure: bool,
    /// Trust these certificate authorities (a PEM file)
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Add a configuration file, *.conf; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) config_file: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) hosts: HostArguments,
    /// For a live system that is not CoreOS
    #[arg(long)]
    pub(crate) any_live_system: bool,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
