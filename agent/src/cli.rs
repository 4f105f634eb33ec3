//! The command line: what can be said, not what it does.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// The agent that a bare server boots
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
In its ramdisk the agent is started by init. Anywhere else each sub-command
shows one stage, and nothing is changed unless told to.

Examples:
  landfall-agent show-params --cmdline 'ipa-api-url=http://192.0.2.1:6385'
  landfall-agent plan-network --cmdline 'ip=192.0.2.10::192.0.2.1:24::eth0:none'
  landfall-agent inventory --json
  landfall-agent discover http://192.0.2.1:6385

Every stage of the boot takes its settings from the kernel command line; see
the README for the list."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Show the work as JSON lines on stderr instead of text
    #[arg(long, global = true)]
    pub progress_json: bool,
    /// Say more
    #[arg(long, global = true)]
    pub debug: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the whole agent; in the ramdisk only
    Run,
    /// Print every setting, its value and where it came from
    ShowParams(CommandLineSource),
    /// Print the network that a kernel command line asks for
    PlanNetwork(CommandLineSource),
    /// Print what this machine is made of, as Ironic would get it
    Inventory {
        /// Print the JSON that goes to Ironic's inspection
        #[arg(long)]
        json: bool,
    },
    /// Find the provisioning service, and our address towards it
    Discover {
        /// Base URL of Ironic, without /v1; several are tried in order
        #[arg(required = true)]
        urls: Vec<String>,
        /// Accept any certificate
        #[arg(long)]
        insecure: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write an image to a disk that does not boot before it is proven
    WriteImage(WriteImage),
}

/// Whose kernel arguments are meant.
#[derive(Debug, Args)]
pub struct CommandLineSource {
    /// This text instead of the running kernel's command line
    #[arg(long, value_name = "TEXT")]
    pub cmdline: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `write-image`
#[derive(Debug, Args)]
pub struct WriteImage {
    /// The image by http:// or https://, raw or packed with gzip, xz, zstd
    pub url: String,
    /// The disk, e.g. /dev/sda. Everything on it is lost
    pub disk: PathBuf,
    /// Expected digest of the file as downloaded, e.g. sha256:0123...
    #[arg(long, value_name = "ALGORITHM:HEX")]
    pub image_digest: Option<String>,
    /// Accept any certificate
    #[arg(long)]
    pub insecure: bool,
    /// Allow it on a machine that does not run the landfall ramdisk
    #[arg(long)]
    pub allow_this_machine: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn definitions_are_consistent_and_fit_a_console() {
        let mut command = Cli::command();
        command.clone().debug_assert();
        let names: Vec<String> = command
            .get_subcommands()
            .map(|sub| sub.get_name().to_owned())
            .collect();
        let mut pages = vec![command.render_long_help().to_string()];
        for name in names {
            let sub = command.find_subcommand_mut(&name).unwrap();
            pages.push(sub.render_long_help().to_string());
        }
        for line in pages.iter().flat_map(|page| page.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
