//! The agent as PID 1 of a container. It must not take the host for a machine
//! of its own: no init, no mount, no marker that lets it write to disks.

#[path = "../src/skip.rs"]
mod skip;

use std::io;
use std::path::Path;
use std::process::{Command, Output};

/// Run in a mount namespace of its own. It has its own `/run`, so that what
/// init would leave is seen and does not reach the host, and as in a container
/// the kernel's settings are read-only. The open files tell the mounts before
/// and after: once the inner namespace has ended, the outer has no /proc.
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

/// Init would never return. SIGKILL goes to the whole group: the kernel then
/// ends the PID namespace, and nobody is left to hold the output open.
const PATIENCE: &str = "60";

/// Runs the agent as PID 1; `None` where there are no namespaces to be had.
fn in_container(kind: &[&str], arguments: &[&str], out: &Path) -> io::Result<Option<Output>> {
    let unshare = |command: &[&str]| {
        Command::new("timeout")
            .args(["--signal=KILL", PATIENCE, "unshare"])
            .args(kind)
            .args(["--mount", "--net", "--uts", "--ipc", "--"])
            .args(command)
            .output()
    };
    let possible = unshare(&["mount", "-t", "tmpfs", "run", "/run"])?;
    if !possible.status.success() {
        let why = String::from_utf8_lossy(&possible.stderr);
        skip::skip(format_args!("unshare {kind:?}: {why}"));
        return Ok(None);
    }
    let out = out.to_string_lossy();
    let agent = env!("CARGO_BIN_EXE_landfall-agent");
    let mut command = vec!["sh", "-c", CONTAINER, "sh", &out, agent];
    command.extend(arguments);
    unshare(&command).map(Some)
}

#[test]
fn pid_1_of_a_container_is_not_init() {
    for kind in [&[][..], &["--user", "--map-root-user"]] {
        for (arguments, says) in [
            (&["inventory", "--json"][..], "\"cpu\""),
            (&["--version"], env!("CARGO_PKG_VERSION")),
        ] {
            let out = tempfile::tempdir().unwrap();
            let Some(output) = in_container(kind, arguments, out.path()).unwrap() else {
                continue;
            };
            let read =
                |name: &str| std::fs::read_to_string(out.path().join(name)).unwrap_or_default();
            assert!(output.status.success(), "{kind:?} {arguments:?} {output:?}");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains(says), "{kind:?} {arguments:?} {said}");
            assert!(read("mounts-before").contains(" /run "), "{kind:?}");
            assert!(read("run-before").starts_with("/run\n"), "{kind:?}");
            for what in ["mounts", "run"] {
                let (before, after) = (format!("{what}-before"), format!("{what}-after"));
                assert_eq!(read(&after), read(&before), "{kind:?} {what}");
            }
        }
    }
}
