//! Starts programs so that none of them outlives the test that needs it.

use std::ffi::OsStr;
use std::process::{Output, Stdio};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

/// A command that the kernel kills when the thread that started it ends, in
/// whatever way, and that is killed when its handle is dropped.
///
/// `PR_SET_PDEATHSIG` would have to be set between fork and exec, which std
/// only offers as unsafe code; setpriv(1) of util-linux does it instead.
pub fn bound_to_this_thread(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .kill_on_drop(true)
        .stdin(Stdio::null());
    command
}

/// The same for a program that starts others, which end with it however far
/// they went away from it, as libvirt's guests do.
///
/// It gets a namespace of process ids, and the kernel ends all in one with its
/// first process. That is a shell: it takes over those that lose their parent,
/// and a program which has to see a process disappear would wait for ever
/// where nobody asks for how it ended.
pub fn bound_with_its_children(program: impl AsRef<OsStr>) -> Command {
    let mut command = bound_to_this_thread("unshare");
    command
        .args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"])
        .args(["bash", "-c", r#""$@" & wait $!"#, "bash"])
        .arg(program);
    command
}

/// Runs a program to its end; its output is part of the error if it fails.
pub async fn run(program: &str, arguments: &[&str]) -> Result<Output> {
    let output = bound_to_this_thread(program)
        .args(arguments)
        .output()
        .await
        .with_context(|| format!("starting {program}"))?;
    ensure!(
        output.status.success(),
        "{program} {}: {}\n{}{}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}
