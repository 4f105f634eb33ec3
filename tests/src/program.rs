//! Starts programs in a way that none of them outlives its test.

use std::ffi::OsStr;
use std::process::{Output, Stdio};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

/// A command that the kernel kills when the thread that started it ends for any
/// reason. Dropping its handle kills it too.
///
/// Something has to set `PR_SET_PDEATHSIG` between fork and exec, and std has only an
/// unsafe function for that. setpriv(1) of util-linux does it instead.
pub fn bound_to_this_thread(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .kill_on_drop(true)
        .stdin(Stdio::null());
    command
}

/// Like [`bound_to_this_thread`], for a program that starts other programs. They end
/// with it even if they detach, as libvirt's guests do.
///
/// The program gets its own PID namespace: when the first process of a namespace ends,
/// the kernel ends all its other processes. The first process here is a shell, because
/// a shell reaps orphans. Otherwise a program that waits for a process to disappear
/// would wait forever.
pub fn bound_with_its_children(program: impl AsRef<OsStr>) -> Command {
    let mut command = bound_to_this_thread("unshare");
    command
        .args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"])
        .args(["bash", "-c", r#""$@" & wait $!"#, "bash"])
        .arg(program);
    command
}

/// Runs a program to its end. If it fails, the error contains its output.
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
