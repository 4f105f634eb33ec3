//! Runs the command of `make release` a second time, and compares the results.

use std::fs;
use std::process::Command;

use crate::{release, repository, run};

/// A value that differs from the variable's current value, which the first run probably
/// had.
fn other(variable: &str, values: [&'static str; 2]) -> &'static str {
    let first = std::env::var(variable).unwrap_or_default();
    let [one, two] = values;
    if first == one { two } else { one }
}

/// `make release` records its command in out/release.command, one word a line. The second
/// run has another umask, time zone, locale, cache and directory for temporary files.
#[test]
fn a_second_run_gives_the_same_bytes() {
    let recorded = fs::read_to_string(repository().join("out/release.command")).unwrap();
    let again = tempfile::tempdir_in(repository().join("out")).unwrap();
    let output = again.path().join("release");
    let temporary = again.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let mut command = Command::new("sh");
    run(command
        .args(["-c", "umask 077 && exec \"$@\"", "sh"])
        .args(recorded.lines())
        .arg("-o")
        .arg(&output)
        .env("TZ", other("TZ", ["XYZ-14", "ABC+11"]))
        .env("LC_ALL", other("LC_ALL", ["C", "C.UTF-8"]))
        .env("TMPDIR", &temporary)
        // With an empty cache, everything is compressed again.
        .env("XDG_CACHE_HOME", &temporary)
        .current_dir(repository()));
    run(Command::new("diff")
        .args(["--recursive", "--brief"])
        .arg(release())
        .arg(&output));
}
