//! Removes from this process all rights that a parser of untrusted bytes does not need:
//! files, sockets, other processes, privileges, and memory and processor time beyond a
//! limit.
//!
//! The layers do not depend on each other. If the kernel or a container lacks one layer,
//! the other layers still work.

mod system_calls;

use std::io;
use std::time::Duration;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};

/// The user and group "nobody", which in Linux have no rights of their own.
const NOBODY: u32 = 65534;

/// The first word of the line about the filter of system calls, the strongest layer.
pub const SYSTEM_CALLS: &str = "seccomp";

/// The resources that the process may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Address space in bytes. Beyond it an allocation fails, which ends the process.
    pub memory: u64,
    /// After this much processor time the kernel ends the process.
    pub processor_time: Duration,
}

/// Closes all files except standard input, output and error, because a library may have
/// opened a file without `O_CLOEXEC`.
pub fn close_inherited() -> io::Result<()> {
    // SAFETY: takes numbers only. The caller has just been started, so nothing in this
    // process owns a file descriptor of 3 or more.
    let result = unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// Confines this process permanently. Call this while the process has one thread.
/// Afterwards the process can read and write its open files, use memory, and end; any
/// other system call ends it.
///
/// Returns the layers that could not be applied and the reasons, one line each.
pub fn enter(limits: &Limits) -> Vec<String> {
    let mut missing = Vec::new();
    let mut note = |what: &str, outcome: Result<(), String>| {
        if let Err(error) = outcome {
            missing.push(format!("{what}: {error}"));
        }
    };
    for (what, outcome) in set_limits(limits) {
        note(what, outcome.map_err(text));
    }
    // A process that is not root has nothing to give up here.
    if geteuid().is_root() {
        note("bounding set", drop_bounding_set().map_err(text));
        note("user", drop_to_nobody().map_err(text));
    }
    note("capabilities", drop_capabilities().map_err(text));
    note("no_new_privs", prctl::set_no_new_privs().map_err(text));
    // Must follow the change of the user, which sets this flag.
    note("dumpable", prctl::set_dumpable(false).map_err(text));
    note("landlock", deny_files());
    // Must follow Landlock, which needs a file descriptor.
    note(
        "open files",
        setrlimit(Resource::RLIMIT_NOFILE, 0, 0).map_err(text),
    );
    note(SYSTEM_CALLS, allow_few_system_calls());
    missing
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Sets each limit separately, and returns each result.
fn set_limits(limits: &Limits) -> [(&'static str, nix::Result<()>); 7] {
    let seconds = limits.processor_time.as_secs().max(1);
    [
        ("core files", Resource::RLIMIT_CORE, 0),
        ("files", Resource::RLIMIT_FSIZE, 0),
        ("locked memory", Resource::RLIMIT_MEMLOCK, 0),
        ("message queues", Resource::RLIMIT_MSGQUEUE, 0),
        ("processes", Resource::RLIMIT_NPROC, 0),
        ("memory", Resource::RLIMIT_AS, limits.memory),
        ("processor time", Resource::RLIMIT_CPU, seconds),
    ]
    .map(|(what, resource, limit)| (what, set_limit(resource, limit)))
}

/// Keeps a hard limit that is already lower: only a privileged process may raise it.
fn set_limit(resource: Resource, limit: u64) -> nix::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    let limit = limit.min(hard);
    setrlimit(resource, limit, limit)
}

/// Empties the capability bounding set, so that a program that is executed later gets no
/// capability from its file.
fn drop_bounding_set() -> nix::Result<()> {
    for capability in 0_u64.. {
        // SAFETY: takes numbers only.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        match Errno::result(result) {
            Ok(_) => {}
            // The number after the kernel's last capability.
            Err(Errno::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Changes the groups before the user, because only root may change its groups.
fn drop_to_nobody() -> nix::Result<()> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)
}

/// Gives up all capabilities, because a process without root may have some, too.
fn drop_capabilities() -> nix::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3` of <linux/capability.h>.
    const VERSION: u32 = 0x2008_0522;
    // The header has the version and the thread (0 is this one). There are three sets
    // of capabilities with 64 bits each. The call takes them as six words: the low
    // halves of all three, then the high halves.
    let header = [VERSION, 0];
    let sets = [0_u32; 6];
    // SAFETY: both arrays have the layout that this version of the call reads, and outlive
    // the call, which writes to the header only to correct an unknown version.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
    Errno::result(result).map(drop)
}

/// Denies opening files. Also denies TCP ports from version 4 of the Landlock ABI on, and
/// signals and abstract sockets from version 6 on. Debian 12's kernel has ABI 2.
fn deny_files() -> Result<(), String> {
    // The crate skips the rights that the kernel does not support.
    const NEWEST: ABI = ABI::V6;
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(NEWEST)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(NEWEST)))
        .and_then(Ruleset::create)
        .map_err(text)?;
    let status = ruleset.restrict_self().map_err(text)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel does not have it".to_owned()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

/// From here on, a system call that [`system_calls`] does not allow ends the process.
fn allow_few_system_calls() -> Result<(), String> {
    let filter = system_calls::filter().map_err(text)?;
    seccompiler::apply_filter(&filter).map_err(text)
}

#[cfg(test)]
mod tests;
