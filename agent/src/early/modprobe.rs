//! Our own /sbin/modprobe: the kernel calls it when it wants a module by alias.
//!
//! `mount -t ext4` asks for `fs-ext4`, ext4 for `crypto-crc32c`, vfat for its
//! code pages. By pointing /proc/sys/kernel/modprobe at the agent those requests
//! are answered from the same index as the devices', and no list of "modules
//! that will be needed" has to be kept.

use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;

use super::modules::{Modules, Outcome};

/// Registers this program with the kernel.
pub(super) fn register() {
    if let Err(error) = fs::write("/proc/sys/kernel/modprobe", "/init\n") {
        tracing::warn!(
            "/proc/sys/kernel/modprobe: {error}; file systems that need a module cannot be mounted"
        );
    }
}

/// Is this how the kernel calls modprobe: `-q -- NAME` (kernel/module/kmod.c)?
pub fn is_modprobe_call(arguments: &[OsString]) -> bool {
    matches!(arguments, [quiet, end, _] if quiet == "-q" && end == "--")
}

/// Loads what the kernel asked for. Quiet: the kernel tries many names that
/// nobody has, and the requester reports a failure itself.
pub fn modprobe(alias: &OsString) -> ExitCode {
    let Some(alias) = alias.to_str() else {
        return ExitCode::FAILURE;
    };
    let Ok(modules) = Modules::of_running_kernel() else {
        return ExitCode::FAILURE;
    };
    match modules.load_for(alias, || ()) {
        Outcome::Loaded => ExitCode::SUCCESS,
        // There is no other thread in this process that could be loading one.
        Outcome::Nothing | Outcome::WaitsFor(_) => ExitCode::FAILURE,
    }
}
