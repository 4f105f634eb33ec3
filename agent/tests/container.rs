//! Runs the agent as PID 1 of a container. It must not mistake the host for a
//! machine that it may take over: it must do no init work, mount nothing, and
//! write no marker that permits writing to disks.

use std::io;
use std::path::Path;
use std::process::{Command, Output};

/// This script runs in its own mount namespace. Its private `/run` shows what init would
/// leave there and keeps it away from the host. The kernel's settings are read-only, as
/// in a container. File descriptors 3 and 4 are opened early because the outer namespace
/// has no usable /proc after the inner PID namespace has ended.
const CONTAINER: &str = r#"
set -eu
out=$1; shift
exec 3< /proc/self/mountinfo 4< /proc/self/mountinfo
mount -t tmpfs run /run
unshare --pid --fork --kill-child -- sh -c '
  set -eu
  out=$1; shift
  mount -t proc proc /proc
  mount -o bind,ro /proc/sys /proc/sys
  cat <&3 > "$out/mounts-before"
  find /run > "$out/run-before"
  exec "$@"
' sh "$out" "$@"
cat <&4 > "$out/mounts-after"
find /run > "$out/run-after"
"#;

/// The time limit of the container in seconds. If the agent acted as init, it would never
/// return. `timeout` sends SIGKILL to the whole process group: the kernel then ends the
/// PID namespace, so no process keeps the output open.
const TIMEOUT: &str = "60";

/// Runs the agent as PID 1. Returns `None` if this machine permits no namespaces.
fn in_container(kind: &[&str], arguments: &[&str], out: &Path) -> io::Result<Option<Output>> {
    let unshare = |command: &[&str]| {
        Command::new("timeout")
            .args(["--signal=KILL", TIMEOUT, "unshare"])
            .args(kind)
            .args(["--mount", "--net", "--uts", "--ipc", "--"])
            .args(command)
            .output()
    };
    let possible = unshare(&["mount", "-t", "tmpfs", "run", "/run"])?;
    if !possible.status.success() {
        let why = String::from_utf8_lossy(&possible.stderr);
        landfall_sys::skip::skip(format_args!("unshare {kind:?}: {why}"));
        return Ok(None);
    }
    let out = out.to_string_lossy();
    let agent = env!("CARGO_BIN_EXE_landfall-agent");
    let mut command = vec!["sh", "-c", CONTAINER, "sh", &out, agent];
    command.extend(arguments);
    unshare(&command).map(Some)
}

/// The lines without those of mounts in the directory of temporary files. Other tests have
/// mounts there, and the kernel detaches a mount in every namespace when its directory is
/// removed.
fn without_other_tests(mounts: &str) -> String {
    let directory = format!(" {}/", std::env::temp_dir().display());
    let lines = mounts
        .split_inclusive('\n')
        .filter(|line| !line.contains(&directory));
    lines.collect()
}

#[test]
fn pid_1_of_a_container_is_not_init() {
    for kind in [&[][..], &["--user", "--map-root-user"]] {
        for (arguments, expected) in [
            (&["inventory", "--json"][..], "\"cpu\""),
            (&["--version"], env!("CARGO_PKG_VERSION")),
        ] {
            let out = tempfile::tempdir().unwrap();
            let Some(output) = in_container(kind, arguments, out.path()).unwrap() else {
                continue;
            };
            let read = |name: &str| {
                let text = std::fs::read_to_string(out.path().join(name)).unwrap_or_default();
                without_other_tests(&text)
            };
            assert!(output.status.success(), "{kind:?} {arguments:?} {output:?}");
            let stdout = String::from_utf8_lossy(&output.stdout);
            assert!(stdout.contains(expected), "{kind:?} {arguments:?} {stdout}");
            assert!(read("mounts-before").contains(" /run "), "{kind:?}");
            assert!(read("run-before").starts_with("/run\n"), "{kind:?}");
            for what in ["mounts", "run"] {
                let (before, after) = (format!("{what}-before"), format!("{what}-after"));
                assert_eq!(read(&after), read(&before), "{kind:?} {what}");
            }
        }
    }
}
