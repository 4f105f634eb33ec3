//! The arguments of `landfall-image hosts`, and those that name hosts in all commands.

use std::path::PathBuf;

use clap::Args;

use super::OutputArguments;

const HOSTS: &str = "EACH HOST'S OWN NETWORK";

/// Build a small ramdisk that adds hosts to a finished one.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image hosts --hosts DIR|--install-config FILE|... -o hosts.img",
    after_help = "\
Example:
  landfall-image hosts --hosts ./hosts -o hosts.img
  cat initrd.img hosts.img > initrd-site.img

The kernel must unpack hosts.img after another ramdisk: append it to that file,
give it to the boot loader as a second initrd, or write it over boot/embed.img
in an ISO (boot/landfall-areas.json in the ISO has the offset). It replaces
hosts of the same name."
)]
pub(crate) struct HostsArguments {
    #[command(flatten)]
    pub(crate) hosts: HostArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// The hosts in the ramdisk. Their networks take precedence over those of media and
/// kernel arguments. Their root device hints apply if no other source gives hints.
#[derive(Debug, Default, Args)]
pub(crate) struct HostArguments {
    /// The network of one host, as NMState (YAML)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["network_data", "hosts", "agent_config", "install_config", "bare_metal_hosts"], help_heading = HOSTS)]
    pub(crate) nmstate: Option<PathBuf>,
    /// The network of one host, as network_data.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hosts", "agent_config", "install_config", "bare_metal_hosts"], help_heading = HOSTS)]
    pub(crate) network_data: Option<PathBuf>,
    /// The networks of many hosts: HOSTNAME.yaml (NMState), HOSTNAME.json
    #[arg(long, value_name = "DIR", help_heading = HOSTS)]
    pub(crate) hosts: Option<PathBuf>,
    /// The networks of many hosts, as OpenShift's agent-config.yaml
    #[arg(long, value_name = "FILE", help_heading = HOSTS)]
    pub(crate) agent_config: Option<PathBuf>,
    /// Many hosts, as OpenShift's install-config.yaml
    #[arg(long, value_name = "FILE", help_heading = HOSTS)]
    pub(crate) install_config: Option<PathBuf>,
    /// Many hosts, as BareMetalHosts and Secrets; may be repeated
    #[arg(long, value_name = "FILE", help_heading = HOSTS)]
    pub(crate) bare_metal_hosts: Vec<PathBuf>,
    /// Treat warnings about the networks as errors
    #[arg(long, help_heading = HOSTS)]
    pub(crate) strict: bool,
}
