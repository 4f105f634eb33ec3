//! The syntax of the command line. The code that carries it out is elsewhere.

use clap::{Parser, Subcommand};

use crate::stages::RunArguments;
use crate::tools::Tool;

/// The agent that a bare server boots
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
In its ramdisk, init starts the agent; in a live system, systemd starts it.
On any other machine, each sub-command runs one stage. It changes nothing on
the machine unless an option allows it.

Examples:
  landfall-agent show-params --cmdline 'ipa-api-url=http://192.0.2.1:6385'
  landfall-agent plan-network --cmdline 'ip=192.0.2.10::192.0.2.1:24::eno1:none'
  landfall-agent inventory --json
  landfall-agent discover http://192.0.2.1:6385

Every stage of the boot reads its settings from the kernel command line; see
docs/kernel-arguments.md for the list."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Print progress as JSON lines on stderr instead of text
    #[arg(long, global = true)]
    pub progress_json: bool,
    /// Print debug messages
    #[arg(long, global = true)]
    pub debug: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the whole agent: in its ramdisk, or in a live system
    Run(RunArguments),
    #[command(flatten)]
    Tool(Tool),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use landfall_documentation::blocks;
    use landfall_documentation::commands::commands_of;
    use landfall_documentation::page::pages;

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

    #[test]
    fn the_commands_of_the_docs_have_no_unknown_options() {
        let mut count = 0;
        for page in pages().unwrap() {
            for block in blocks(&page) {
                for command in commands_of(&block, "landfall-agent") {
                    let words = shlex::split(&command).unwrap();
                    if let Err(error) = Cli::try_parse_from(words) {
                        panic!("{}: {command}\n{error}", block.place());
                    }
                    count += 1;
                }
            }
        }
        assert!(count >= 15, "found {count} commands");
    }
}
