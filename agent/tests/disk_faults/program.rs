use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts writing the image to the disk. `env --default-signal` resets ignored signals:
/// if a shell runs the tests in the background, the tests inherit some ignored signals
/// from it.
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

/// Writes the image to the disk. Returns whether the program succeeded, and all its
/// output.
pub fn write(url: &str, disk: &Path, more: &[&str]) -> (bool, String) {
    let output = start_writing(url, disk, more).wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}
