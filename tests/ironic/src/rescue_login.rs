//! Tests the login of a user to a rescued node, with an ordinary OpenSSH
//! client.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use landfall_tests::journal::{Mark, Source};
use landfall_tests::lab::{GUEST_V4, Lab};
use landfall_tests::program;
use tokio::time::timeout;

/// The time limit of one login. An emulated host needs some seconds for the key
/// exchange.
const LOGIN_LIMIT: Duration = Duration::from_secs(90);

/// The user's commands: show the user ID and the terminal, and list files on the
/// disk.
const COMMANDS: &str =
    "id -u; tty; mkdir /mnt/boot && mount -o ro /dev/vda3 /mnt/boot && ls /mnt/boot/loader/entries";

/// Logs in with the right and with a wrong password. The host key must have the
/// fingerprint that the console shows.
pub(super) async fn check(lab: &Lab, mark: Mark, password: &str) -> Result<()> {
    let output = log_in(lab, password, COMMANDS).await?;
    for expected in ["0", "/dev/pts/0", ".conf"] {
        let found = output
            .lines()
            .any(|line| line.trim_end().ends_with(expected));
        ensure!(found, "expected a line '{expected}', found\n{output}");
    }

    let keys = lab.path("known_hosts").display().to_string();
    let printed = program::run("ssh-keygen", &["-l", "-f", &keys]).await?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    let fingerprint = printed.split(' ').nth(1).context("no fingerprint")?;
    let on_console = lab.journal.find(mark, |event| {
        event.source == Source::Console && event.text.contains(fingerprint)
    });
    ensure!(
        on_console.is_some(),
        "the console does not show the host key's fingerprint {fingerprint}"
    );

    let wrong = log_in(lab, "another password", "id").await;
    ensure!(wrong.is_err(), "a wrong password opens the host: {wrong:?}");
    Ok(())
}

/// Runs a command on the host and returns its output.
async fn log_in(lab: &Lab, password: &str, command: &str) -> Result<String> {
    let secret = lab.path("password");
    std::fs::write(&secret, password)?;
    let askpass = lab.path("askpass");
    std::fs::write(&askpass, format!("#!/bin/sh\ncat {}\n", secret.display()))?;
    std::fs::set_permissions(&askpass, std::fs::Permissions::from_mode(0o755))?;
    let keys = lab.path("known_hosts").display().to_string();
    let mut ssh = program::bound_to_this_thread("ssh");
    ssh.env("SSH_ASKPASS", &askpass)
        .env("SSH_ASKPASS_REQUIRE", "force")
        .args(["-F", "none", "-tt", "-o", "LogLevel=ERROR"])
        .args(["-o", "PreferredAuthentications=password"])
        .args(["-o", "NumberOfPasswordPrompts=1"])
        .args(["-o", "StrictHostKeyChecking=accept-new"])
        .args(["-o", &format!("UserKnownHostsFile={keys}")])
        .args([&format!("rescue@{GUEST_V4}"), command]);
    let output = timeout(LOGIN_LIMIT, ssh.output())
        .await
        .context("waiting for ssh")?
        .context("starting ssh (package openssh-client)")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "ssh: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}
