//! Keeps the agent alive, and reaps what is left behind.

use std::io::PipeReader;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;

use super::shutdown::Ending;

/// The wait before a crashed agent is started again; doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);
/// An agent that lived this long has not crashed at start.
const HEALTHY: Duration = Duration::from_secs(60);

/// Runs the agent, again after each crash, until it asks for an ending.
///
/// Its standard input is the pipe that reaches end of file when the devices
/// present at boot have their drivers: an agent started later finds it ended.
pub(super) fn agent_until_its_end(devices_settled: Option<&PipeReader>) -> Ending {
    let mut pause = SHORTEST;
    loop {
        let started = Instant::now();
        match start_agent(devices_settled) {
            Ok(child) => {
                let status = reap_until_exit_of(&child);
                match status {
                    WaitStatus::Exited(_, code) => {
                        if let Some(ending) = Ending::from_exit_code(code) {
                            return ending;
                        }
                        tracing::error!("the agent ended with code {code} -- starting it again");
                    }
                    WaitStatus::Signaled(_, signal, _) => {
                        tracing::error!(
                            "the agent was killed by {} -- starting it again",
                            signal.as_str()
                        );
                    }
                    other => tracing::error!("the agent ended: {other:?} -- starting it again"),
                }
            }
            Err(error) => tracing::error!("starting the agent: {error} -- trying again"),
        }
        if started.elapsed() > HEALTHY {
            pause = SHORTEST;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST);
    }
}

fn start_agent(devices_settled: Option<&PipeReader>) -> std::io::Result<Child> {
    let stdin = match devices_settled {
        Some(pipe) => Stdio::from(pipe.try_clone()?),
        None => Stdio::null(),
    };
    Command::new("/proc/self/exe")
        .arg("run")
        .env_clear()
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Waits for any child, since PID 1 inherits every orphan, until it is this one.
fn reap_until_exit_of(child: &Child) -> WaitStatus {
    let agent = Pid::from_raw(child.id().cast_signed());
    loop {
        match wait() {
            Ok(status @ (WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)))
                if pid == agent =>
            {
                return status;
            }
            // Without children there is no agent: start one.
            Err(Errno::ECHILD) => return WaitStatus::StillAlive,
            // Any other error is about another child (nix knows no real-time
            // signals); a second agent beside the first would be worse.
            Ok(_) | Err(_) => {}
        }
    }
}
