//! A second run of the command that `make release` ran.

use std::fs;
use std::process::Command;

use crate::{release, repository, run};

/// `make release` records its command in out/release.command, one word a line.
#[test]
fn a_second_run_gives_the_same_bytes() {
    let recorded = fs::read_to_string(repository().join("out/release.command")).unwrap();
    let mut words = recorded.lines();
    let again = tempfile::tempdir_in(repository().join("out")).unwrap();
    let output = again.path().join("release");
    let mut command = Command::new(words.next().unwrap());
    run(command
        .args(words)
        .arg("-o")
        .arg(&output)
        .current_dir(repository()));
    run(Command::new("diff")
        .args(["--recursive", "--brief"])
        .arg(release())
        .arg(&output));
}
