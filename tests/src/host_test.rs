//! Runs a test with a host, a second time if the emulator crashed, and prints the time
//! that it took.

use std::io::Write;
use std::time::Instant;

use anyhow::Result;

use crate::lab::{self, Lab};

/// The journal's text for a crash of QEMU itself. QEMU 10.0 of Debian 13 sometimes
/// fails its own assertion (`msix_table_mmio_write`) while the kernel scans the PCI
/// bus. No test expects a guest to end this way.
const EMULATOR_CRASHED: &str = "machine ended: signal: 6 (SIGABRT)";

/// Runs a test's body in a lab and prints how long it took. Runs it a second time
/// if QEMU crashed.
pub fn run(name: &str, body: impl AsyncFn(&Lab) -> Result<()> + Send + Sync) -> Result<()> {
    let began = Instant::now();
    let mut result = lab::run(name, &body);
    if let Err(error) = &result
        && format!("{error:#}").contains(EMULATOR_CRASHED)
    {
        say(&format!(
            "{name}: the emulator crashed, once more: {error:#}"
        ));
        result = lab::run(name, &body);
    }
    let took = began.elapsed().as_secs_f64();
    say(&format!("{name}: {took:.1} s with waiting for a slot"));
    result
}

/// Bypasses libtest's capture, which covers only the print macros: the times are of
/// interest even if the tests pass.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
