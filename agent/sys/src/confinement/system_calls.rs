//! The system calls that a confined process may make.

use std::collections::BTreeMap;

use nix::libc;
use nix::unistd::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// The system calls that a parser needs: to read and write open files, to allocate, and
/// to end, also by a panic. HashMap needs random numbers.
const ALLOWED: [i64; 20] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_write,
];

/// The filter. Once it is applied, a system call that is neither in the list nor allowed
/// by a condition below ends the process (SIGSYS).
pub(super) fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let always = ALLOWED.map(|call| (call, Vec::new()));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = always.into();
    // Memory never becomes executable.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
        let protection = condition(2, SeccompCmpArgLen::Dword, executable, 0)?;
        rules.insert(call, vec![SeccompRule::new(vec![protection])?]);
    }
    // In a debug build, the standard library checks that a file is open before it
    // closes the file.
    let asks = condition(
        1,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        libc::F_GETFD as u64,
    )?;
    rules.insert(libc::SYS_fcntl, vec![SeccompRule::new(vec![asks])?]);
    // abort(3) sends a signal to its own process.
    let own = condition(
        0,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        getpid().as_raw() as u64,
    )?;
    rules.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![own])?]);
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        TargetArch::try_from(std::env::consts::ARCH)?,
    )?;
    filter.try_into()
}

fn condition(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, length, operator, value)
}
