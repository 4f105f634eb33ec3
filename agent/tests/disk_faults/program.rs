//! The program under test.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts to write the image to the disk. No signal is ignored: a shell may have
/// started the tests in the background.
pub fn start_writing(url: &str, disk: &Path, more: &[&str]) -> Child {
    Command::new("env")
        .args(["--default-signal", env!("CARGO_BIN_EXE_landfall-agent")])
        .args(["write-image", url])
        .arg(disk)
        .arg("--allow-this-machine")
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Writes the image to the disk: whether it says that all is well, and all of
/// what it says.
pub fn write(url: &str, disk: &Path, more: &[&str]) -> (bool, String) {
    let output = start_writing(url, disk, more).wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}
