//! Runs the real program as a person at a shell does: pipes, exit codes, output.

#![expect(
    clippy::unwrap_used,
    reason = "what a test finds wrong ends it, outside of test functions as well"
)]

use std::fs;
use std::process::{Command, Output};

fn agent(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_landfall-agent"));
    command.args(arguments);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Commands that print and change nothing.
const PRINTING: [&[&str]; 7] = [
    &["show-params", "--cmdline", "ipa-debug=1"],
    &["show-params", "--cmdline", "ipa-debug=1", "--json"],
    &["plan-network", "--cmdline", "ip=dhcp"],
    &["plan-network", "--cmdline", "ip=dhcp", "--json"],
    &["plan-network", "--cmdline", "ip=dhcp", "--arguments"],
    &["inventory"],
    &["inventory", "--json"],
];

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = agent(arguments).stdout(writer).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}, {}",
            output.status,
            stderr(&output)
        );
    }
}

#[test]
fn a_full_disk_is_an_error() {
    for arguments in PRINTING {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let output = agent(arguments).stdout(full.unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let expected = "writing to standard output: No space left on device";
        let last = stderr(&output);
        assert!(last.contains(expected), "{arguments:?}: {last}");
    }
}
