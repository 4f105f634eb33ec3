//! Runs the programs of other packages, such as xorriso.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use landfall_initramfs::temporary;

/// Runs a program in the same locale and time zone on every machine.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let program = PathBuf::from(command.get_program());
    let output = temporary::run(command.envs([("LC_ALL", "C"), ("TZ", "UTC")]));
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let mut last: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.contains(" : NOTE : "))
        .rev()
        .take(3)
        .collect();
    last.reverse();
    bail!(
        "{} ended with {}: {}",
        program.display(),
        output.status,
        last.join(" / ")
    )
}
