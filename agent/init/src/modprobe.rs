//! The program that the kernel calls as /sbin/modprobe when it needs a module
//! by alias.
//!
//! `mount -t ext4` needs `fs-ext4`, ext4 needs `crypto-crc32c`, vfat needs its code
//! pages. Init registers this program in /proc/sys/kernel/modprobe. It looks up these
//! aliases in the same module index in which init looks up the modaliases of devices, so
//! nobody has to maintain a list of the modules that file systems need.

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

/// Whether the kernel called this program as modprobe: `-q -- NAME`
/// (kernel/module/kmod.c).
pub fn is_modprobe_call(arguments: &[OsString]) -> bool {
    matches!(arguments, [quiet, end, _] if quiet == "-q" && end == "--")
}

/// Loads the modules for an alias that the kernel requests. Logs nothing if no module
/// matches: the kernel requests many aliases that no module has, and the program that
/// needs the module reports the failure.
pub fn modprobe(alias: &OsString) -> ExitCode {
    let Some(alias) = alias.to_str() else {
        return ExitCode::FAILURE;
    };
    let Ok(modules) = Modules::of_running_kernel() else {
        return ExitCode::FAILURE;
    };
    match modules.load_for(alias, || ()) {
        Outcome::Loaded => ExitCode::SUCCESS,
        // `WaitsFor` cannot occur: no other thread of this process loads modules.
        Outcome::Nothing | Outcome::WaitsFor(_) => ExitCode::FAILURE,
    }
}
