//! Each test confines a separate process, which it creates with fork(2), and checks how
//! that process ends.

use std::fs::File;
use std::hint::black_box;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getgroups, getresuid};

use super::*;
use crate::skip::skip;

/// Limits that do not end the test program itself.
const LIMITS: Limits = Limits {
    memory: u64::MAX,
    processor_time: Duration::from_secs(20),
};

/// Runs this in a confined process. `true` means that it ends with 0.
fn confined(limits: Limits, body: impl FnOnce() -> bool) -> WaitStatus {
    in_process(|| {
        enter(&limits);
        body()
    })
}

/// Runs this in a process of its own. `true` means that it ends with 0.
fn in_process(body: impl FnOnce() -> bool) -> WaitStatus {
    // SAFETY: the child calls no function of the test harness and ends with _exit. glibc
    // puts its allocator into order in the child of a program with threads.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => waitpid(child, None).unwrap(),
        ForkResult::Child => {
            let code = if body() { 0 } else { 1 };
            // SAFETY: ends the process without the destructors of the test harness.
            unsafe { libc::_exit(code) }
        }
    }
}

#[track_caller]
fn ends_by(signal: Signal, ended: WaitStatus) {
    let by_signal = matches!(ended, WaitStatus::Signaled(_, found, _) if found == signal);
    assert!(by_signal, "expected {signal}, found {ended:?}");
}

#[track_caller]
fn succeeds(ended: WaitStatus) {
    assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{ended:?}");
}

#[test]
fn a_confined_process_can_read_allocate_and_end() {
    use std::io::Read as _;
    let mut zero = File::open("/dev/zero").unwrap();
    succeeds(confined(LIMITS, move || {
        let mut bytes = vec![1; 4 << 20];
        let map: std::collections::HashMap<u8, u8> = [(1, 2)].into();
        zero.read_exact(&mut bytes).is_ok() && bytes == vec![0; 4 << 20] && map[&1] == 2
    }));
}

/// A confined process can also fail by a fault of its parser: a panic unwinds in a
/// debug build and aborts in a release build.
#[test]
fn a_confined_process_can_fail() {
    let panics = || {
        // Without a backtrace, as in a real parser process, whose environment is empty.
        std::panic::set_hook(Box::new(|fault| eprintln!("{fault}")));
        std::panic::catch_unwind(|| panic!("a fault of a parser")).is_err()
    };
    succeeds(confined(LIMITS, panics));
    ends_by(Signal::SIGABRT, confined(LIMITS, || std::process::abort()));
}

#[test]
fn a_confined_process_cannot_open_a_file() {
    ends_by(Signal::SIGSYS, confined(LIMITS, || File::open("/").is_ok()));
}

#[test]
fn a_confined_process_cannot_create_a_socket() {
    let body = || TcpListener::bind("127.0.0.1:0").is_ok();
    ends_by(Signal::SIGSYS, confined(LIMITS, body));
}

#[test]
fn a_confined_process_cannot_execute_a_program() {
    let body = || Command::new("/bin/true").exec().raw_os_error().is_none();
    ends_by(Signal::SIGSYS, confined(LIMITS, body));
}

#[test]
fn a_confined_process_cannot_start_another() {
    // SAFETY: the child would end at once.
    let body = || match unsafe { fork() } {
        // SAFETY: as in `confined`.
        Ok(ForkResult::Child) => unsafe { libc::_exit(0) },
        other => other.is_ok(),
    };
    ends_by(Signal::SIGSYS, confined(LIMITS, body));
}

#[test]
fn a_confined_process_cannot_look_into_another() {
    let parent = Pid::this().as_raw();
    // SAFETY: attaches to a process by its number and touches no memory.
    let attach = move || unsafe { libc::ptrace(libc::PTRACE_SEIZE, parent, 0, 0) == 0 };
    ends_by(Signal::SIGSYS, confined(LIMITS, attach));
    // SAFETY: sends no signal.
    let kill = move || unsafe { libc::kill(parent, 0) == 0 };
    ends_by(Signal::SIGSYS, confined(LIMITS, kill));
}

#[test]
fn a_confined_process_cannot_make_memory_executable() {
    let map = || {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping replaces nothing.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
        at != libc::MAP_FAILED
    };
    ends_by(Signal::SIGSYS, confined(LIMITS, map));
}

#[test]
fn a_confined_process_ends_when_its_time_is_used_up() {
    let limits = Limits {
        processor_time: Duration::from_secs(1),
        ..LIMITS
    };
    let ended = confined(limits, || {
        loop {
            black_box(0);
        }
    });
    // The soft limit equals the hard limit, at which the kernel sends SIGKILL
    // (setrlimit(2)).
    ends_by(Signal::SIGKILL, ended);
}

#[test]
fn a_confined_process_gets_no_memory_beyond_its_limit() {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
    let limits = Limits {
        memory: pages * 4096 + (256 << 20),
        ..LIMITS
    };
    succeeds(confined(limits, || {
        let mut large: Vec<u8> = Vec::new();
        let mut small: Vec<u8> = Vec::new();
        large.try_reserve_exact(1 << 30).is_err() && small.try_reserve_exact(1 << 20).is_ok()
    }));
}

/// A service manager may have set a limit of its own, which only root may raise.
#[test]
fn a_lower_limit_of_the_starter_keeps_no_other_limit_from_being_set() {
    let ended = in_process(|| {
        let lower = 64 << 40;
        let prepared =
            setrlimit(Resource::RLIMIT_AS, lower, lower).is_ok() && drop_capabilities().is_ok();
        let all_set = set_limits(&LIMITS)
            .iter()
            .all(|(_, outcome)| outcome.is_ok());
        let now = [Resource::RLIMIT_AS, Resource::RLIMIT_CPU].map(|it| getrlimit(it).ok());
        prepared && all_set && now == [Some((lower, lower)), Some((20, 20))]
    });
    succeeds(ended);
}

/// Tests the other layers without the filter of system calls. The filter would end the
/// process before another layer takes effect.
#[test]
fn the_other_layers_hold_without_seccomp() {
    // In a process of its own, because Landlock cannot be taken back.
    let has_landlock = in_process(|| deny_files().is_ok());
    let has_landlock = matches!(has_landlock, WaitStatus::Exited(_, 0));
    // SAFETY: as in `confined`.
    let ended = match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => waitpid(child, None).unwrap(),
        ForkResult::Child => {
            let was_root = geteuid().is_root();
            let done = [
                set_limits(&LIMITS)
                    .iter()
                    .all(|(_, outcome)| outcome.is_ok()),
                !was_root || drop_bounding_set().is_ok(),
                !was_root || drop_to_nobody().is_ok(),
                drop_capabilities().is_ok(),
                prctl::set_no_new_privs().is_ok(),
            ];
            let readable = File::open("/").is_ok();
            let denied = deny_files().is_ok() && File::open("/").is_err();
            let user = getresuid().unwrap();
            let right = [
                done == [true; 5],
                readable,
                denied == has_landlock,
                !was_root || (user.real.as_raw(), user.effective.as_raw()) == (NOBODY, NOBODY),
                !was_root || getgroups().unwrap().is_empty(),
                !was_root
                    || setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_err(),
                // SAFETY: the child would end at once.
                matches!(unsafe { fork() }, Err(Errno::EAGAIN)),
            ];
            let wrong = right.iter().position(|right| !right).map_or(0, |at| at + 1);
            // SAFETY: as in `confined`.
            unsafe { libc::_exit(wrong as i32) }
        }
    };
    succeeds(ended);
    if !has_landlock {
        skip("this kernel has no Landlock, so only the other layers were compared");
    }
}
