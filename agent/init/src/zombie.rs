//! Finds out whether a process has ended but is still there, and how it ended.
//!
//! wait(2) reports nothing about a process until its last thread is gone, and a thread
//! that waits in the kernel for a dead disk (state D) never ends. /proc reports more: it
//! shows the state of the first thread as the state of the process.

use std::fs;

use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;

/// The wait status of a zombie, which is a process that has ended but still exists.
/// `None` if the process runs or does not exist.
pub(super) fn status(process: Pid) -> Option<WaitStatus> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    WaitStatus::from_raw(process, code(&stat)?).ok()
}

/// The exit code in the form of wait(2), from a line of /proc/PID/stat in state Z:
/// fields 52 and 3 (proc_pid_stat(5)). The name, field 2, may hold any character.
fn code(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    if fields.next()? != "Z" {
        return None;
    }
    fields.nth(48)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_kernel_keeps_how_a_process_ended_until_it_is_waited_for() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "read x; exit 80"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let process = Pid::from_raw(child.id().cast_signed());
        assert_eq!(status(process), None, "it runs");
        drop(child.stdin.take());
        let ended = (0..1000).find_map(|_| {
            thread::sleep(Duration::from_millis(10));
            status(process)
        });
        assert_eq!(ended, Some(WaitStatus::Exited(process, 80)));
        child.wait().unwrap();
        assert_eq!(status(process), None, "it is gone");
    }

    #[test]
    fn only_a_zombie_has_ended() {
        let line = |state: &str, code: &str| {
            let numbers = "0 ".repeat(48);
            format!("42 (a ) Z b) {state} {numbers}{code}\n")
        };
        assert_eq!(code(&line("Z", "9")), Some(9));
        assert_eq!(code(&line("D", "9")), None);
        for cut in ["", "42 (a) Z", "42 (a) Z 0 0"] {
            assert_eq!(code(cut), None, "{cut}");
        }
    }
}
