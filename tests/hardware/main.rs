//! Runs the rows of matrix.txt, each as one test.
//!
//! The journal of the row NAME is kept in `out/logs/hardware_NAME.log`. A row with a
//! reason why it cannot pass is an ignored test, so that `--ignored` shows whether the
//! reason still holds. With LANDFALL_ARCH=aarch64 the rows that are for PCs only are
//! left out.

use std::process::ExitCode;

use anyhow::Result;
use landfall_tests::matrix::{self, Row};
use landfall_tests::{artifacts, host_test};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> Result<ExitCode> {
    let arguments = Arguments::from_args();
    let mut rows = matrix::rows()?;
    rows.retain(|row| row.is_for(artifacts::arch()));
    let trials = rows.into_iter().map(trial).collect();
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

fn trial(row: Row) -> Trial {
    let cannot_pass = row.reason.is_some();
    Trial::test(row.name, move || run(&row)).with_ignored_flag(cannot_pass)
}

fn run(row: &Row) -> Result<(), Failed> {
    let name = format!("hardware_{}", row.name);
    let result = host_test::run(&name, async |lab| row.run(lab).await);
    result.map_err(|error| format!("{error:#}").into())
}
