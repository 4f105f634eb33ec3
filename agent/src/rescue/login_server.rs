//! Runs the SSH server of the rescue layer: dropbear with one host key. The console
//! shows the fingerprint, so that users can compare it.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use landfall_sys::backoff::Backoff;
use landfall_sys::mount::mount_at;
use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The path of the SSH server, relative to the root.
pub(super) const SERVER: &str = "usr/sbin/dropbear";
/// The path of the program that makes host keys, relative to the root.
pub(super) const KEY_MAKER: &str = "usr/bin/dropbearkey";

const SHELL: &str = "/bin/busybox";
const HOST_KEY: &str = "/etc/dropbear/dropbear_ed25519_host_key";
/// The server writes this file when it listens.
const PID_FILE: &str = "/run/dropbear.pid";

/// How long the server may take until it listens. Usually it takes some
/// milliseconds.
const START_LIMIT: Duration = Duration::from_secs(10);
const START_PAUSE: Duration = Duration::from_millis(50);

/// The pauses before the server is started again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The maximum length of a line in bytes. Only a malicious client causes a longer
/// line.
const LONGEST_LINE: u64 = 1024;

/// Why nobody can log in.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginServerError {
    /// The kernel has no pseudo terminals, so nobody can log in. Use a kernel with
    /// `CONFIG_UNIX98_PTYS`.
    #[error("cannot mount devpts on {}: {error}", .target.display())]
    Terminals {
        target: &'static Path,
        error: io::Error,
    },
    /// A directory of the rescue system or of the host key cannot be created, for example
    /// because memory is full. The rescue fails; the text names the reason.
    #[error("cannot make {}: {error}", .folder.display())]
    Folder {
        folder: &'static Path,
        error: io::Error,
    },
    /// A program of the rescue layer does not start. Build the ramdisk with its rescue layer
    /// again.
    #[error("cannot run {program}: {error}")]
    NotRun { program: String, error: io::Error },
    /// A program of the rescue layer has ended with an error. Its own message follows; use the
    /// rescue layer of this release.
    #[error("{program}: {status}: {message}")]
    Failed {
        program: String,
        status: ExitStatus,
        message: String,
    },
    /// The program that makes the host key printed unexpected output. Use the rescue
    /// layer of this release.
    #[error("{maker}: expected a line with a fingerprint, found none")]
    NoFingerprint { maker: String },
    /// The SSH server of the rescue layer does not start. Build the ramdisk with its rescue layer
    /// again.
    #[error("cannot start {}: {error}", .program.display())]
    NotStarted { program: PathBuf, error: io::Error },
    /// The SSH server of the rescue stops while it starts. Look at the lines of the log that
    /// begin with `ssh:`.
    #[error("{} ended with {status}; its messages on the console have the reason", .program.display())]
    Ended {
        program: PathBuf,
        status: ExitStatus,
    },
    /// The SSH server of the rescue runs, but accepts no connections. The agent has ended it;
    /// reset the machine if this repeats.
    #[error("{} did not listen after {} s", .program.display(), START_LIMIT.as_secs())]
    Silent { program: PathBuf },
    /// The machine has too little memory for another thread. The rescue fails; give the machine
    /// more memory.
    #[error("cannot start a thread for the ssh server: {0}")]
    NoThread(io::Error),
}

type Result<T> = std::result::Result<T, LoginServerError>;

/// Starts the server, and a thread that keeps it running. Returns when the server
/// accepts connections.
///
/// # Errors
/// If the server could not be started, with the reason.
pub(super) fn start() -> Result<()> {
    make_terminals()?;
    install_shell()?;
    let fingerprint = host_key()?;
    end_previous();
    let mut server = run()?;
    tracing::info!(
        "log in as user rescue by ssh; the fingerprint of the host key is {fingerprint}"
    );
    thread::Builder::new()
        .name("ssh server".to_owned())
        .spawn(move || {
            let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
            loop {
                let began = Instant::now();
                let status = server.wait();
                after_run(&mut backoff, began.elapsed());
                tracing::error!("the ssh server ended: {status:?}; starting it again");
                server = loop {
                    thread::sleep(backoff.pause());
                    match run() {
                        Ok(server) => break server,
                        Err(fault) => tracing::error!("{fault}; trying again"),
                    }
                };
            }
        })
        .map_err(|error| {
            end_previous();
            LoginServerError::NoThread(error)
        })?;
    Ok(())
}

/// Resets the pauses if the server ran for a while. If it ended soon after its start, it
/// may do so again, so the pauses continue to grow.
fn after_run(backoff: &mut Backoff, ran: Duration) {
    if ran >= LONGEST_PAUSE {
        backoff.reset();
    }
}

/// Mounts devpts, from which each user gets a terminal.
fn make_terminals() -> Result<()> {
    let target = Path::new("/dev/pts");
    if target.join("ptmx").exists() {
        return Ok(());
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let data = Some("gid=5,mode=620,ptmxmode=666");
    fs::create_dir_all(target)
        .and_then(|()| mount_at(Path::new("devpts"), target, "devpts", flags, data))
        .map_err(|error| LoginServerError::Terminals { target, error })
}

/// Makes a link for each command of busybox, including `/bin/sh`.
fn install_shell() -> Result<()> {
    for folder in ["/bin", "/sbin", "/usr/bin", "/usr/sbin"] {
        make_folder(Path::new(folder))?;
    }
    output_of(SHELL, &["--install", "-s"]).map(drop)
}

fn make_folder(folder: &'static Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| LoginServerError::Folder { folder, error })
}

/// Makes the host key unless it exists. Returns its fingerprint.
fn host_key() -> Result<String> {
    if let Some(folder) = Path::new(HOST_KEY).parent() {
        make_folder(folder)?;
    }
    let maker = Path::new("/").join(KEY_MAKER).display().to_string();
    let output = if Path::new(HOST_KEY).exists() {
        output_of(&maker, &["-y", "-f", HOST_KEY])?
    } else {
        output_of(&maker, &["-t", "ed25519", "-f", HOST_KEY])?
    };
    match fingerprint(&output) {
        Some(fingerprint) => Ok(fingerprint.to_owned()),
        None => Err(LoginServerError::NoFingerprint { maker }),
    }
}

/// Finds the line `Fingerprint: SHA256:...`
fn fingerprint(output: &str) -> Option<&str> {
    let mut lines = output.lines();
    lines.find_map(|line| line.strip_prefix("Fingerprint: "))
}

fn output_of(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| LoginServerError::NotRun {
            program: program.to_owned(),
            error,
        })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(LoginServerError::Failed {
            program: program.to_owned(),
            status: output.status,
            message: message.trim().to_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Stops the server that is running. It may belong to an agent that crashed, so that
/// nobody reads its messages. Users who are logged in stay logged in, because each
/// session has a separate process.
fn end_previous() {
    let Some(previous) = running() else {
        return;
    };
    // The process may have ended in the meantime.
    let _ = kill(previous, Signal::SIGTERM);
    let deadline = Instant::now() + START_LIMIT;
    while kill(previous, None) != Err(Errno::ESRCH) && Instant::now() < deadline {
        thread::sleep(START_PAUSE);
    }
}

/// The process in the PID file, if it is the server.
fn running() -> Option<Pid> {
    let pid: i32 = fs::read_to_string(PID_FILE).ok()?.trim().parse().ok()?;
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    (program == Path::new("/").join(SERVER)).then(|| Pid::from_raw(pid))
}

/// Starts the server and waits until it listens.
fn run() -> Result<Child> {
    // The file does not exist before the first start.
    let _ = fs::remove_file(PID_FILE);
    let program = Path::new("/").join(SERVER);
    let started = Command::new(&program)
        // In the foreground, with messages on standard error.
        .args(["-F", "-E", "-r", HOST_KEY, "-P", PID_FILE])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut server = match started {
        Ok(server) => server,
        Err(error) => return Err(LoginServerError::NotStarted { program, error }),
    };
    if let Some(messages) = server.stderr.take() {
        thread::spawn(move || log(messages));
    }
    let deadline = Instant::now() + START_LIMIT;
    loop {
        if running().is_some() {
            return Ok(server);
        }
        let ended = server.try_wait().ok().flatten();
        if ended.is_none() && Instant::now() < deadline {
            thread::sleep(START_PAUSE);
            continue;
        }
        // Kill the server: otherwise it could start to listen later, together with the
        // next server.
        let _ = server.kill();
        let _ = server.wait();
        return Err(match ended {
            Some(status) => LoginServerError::Ended { program, status },
            None => LoginServerError::Silent { program },
        });
    }
}

/// Logs the server's messages until the server and all its sessions have ended.
fn log(messages: ChildStderr) {
    let mut messages = BufReader::new(messages);
    let mut line = Vec::new();
    loop {
        line.clear();
        match messages
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => tracing::info!("ssh: {}", message(&String::from_utf8_lossy(&line))),
        }
    }
}

/// Returns a message such as `[12] Nov 22 10:00:00 Exit (rescue): Disconnect` without
/// process number and time, and without control characters.
fn message(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_stamped = line.starts_with('[') && words.len() > 4;
    let words = if is_stamped { &words[4..] } else { &words[..] };
    let text = words.join(" ");
    text.chars().filter(|char| !char.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_is_found_in_the_output_of_dropbearkey() {
        let output = "Generating 256 bit ed25519 key, this may take a while...\n\
                      Public key portion is:\nssh-ed25519 AAAA root@host\n\
                      Fingerprint: SHA256:yqvR7sVd\n";
        assert_eq!(fingerprint(output), Some("SHA256:yqvR7sVd"));
        assert_eq!(fingerprint("Exited: Failed"), None);
    }

    #[test]
    fn a_server_that_worked_is_started_again_at_once() {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut pause_after = |seconds| {
            after_run(&mut backoff, Duration::from_secs(seconds));
            backoff.pause()
        };
        for _ in 0..10 {
            pause_after(1);
        }
        assert!(pause_after(1) >= LONGEST_PAUSE / 2);
        assert!(pause_after(3600) <= FIRST_PAUSE);
        assert!(pause_after(1) > FIRST_PAUSE / 2);
    }

    #[test]
    fn messages_are_logged_without_process_and_time() {
        for (line, expected) in [
            (
                "[7] Nov 22 10:00:00 Password auth succeeded for 'rescue' from 192.0.2.1:5\n",
                "Password auth succeeded for 'rescue' from 192.0.2.1:5",
            ),
            ("Failed\u{1b}[2J listening\n", "Failed[2J listening"),
            ("\n", ""),
        ] {
            assert_eq!(message(line), expected);
        }
    }
}
