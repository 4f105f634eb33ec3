//! Ends the boot with a reboot, kexec, power off or lockdown, after all data is written
//! to the disks.

use std::fs;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use landfall_sys::link_flags;
use nix::sys::reboot::{RebootMode, reboot, set_cad_enabled};
use nix::unistd::sync;

/// How the agent wants this boot to end. The agent requests it with its exit code,
/// because an exit code works even if no other part of the agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Boot again, from the disk if all went well.
    Reboot,
    /// Start the kernel that was loaded for kexec. Boot again if it does not start.
    Kexec,
    /// Switch the machine off.
    PowerOff,
    /// Leave the machine on, without network, until its BMC resets it.
    LockDown,
}

impl Ending {
    /// What happens to the machine, for the console and the status page.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Reboot => "done: this machine restarts now",
            Self::Kexec => "done: the installed system starts now",
            Self::PowerOff => "done: this machine is switched off now",
            Self::LockDown => "locked down: without network, until the BMC resets this machine",
        }
    }

    /// The exit code that requests this ending. Programs also end with 0, 1, 2 and 101
    /// for other reasons, so no ending uses one of these codes.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Reboot => 80,
            Self::PowerOff => 81,
            Self::LockDown => 82,
            Self::Kexec => 83,
        }
    }

    /// What init does now, for lines on the console.
    pub(super) fn doing(self) -> &'static str {
        match self {
            Self::Reboot => "rebooting",
            Self::Kexec => "starting the installed system's kernel",
            Self::PowerOff => "powering off",
            Self::LockDown => "locking down",
        }
    }

    /// The ending that an exit code requests, if any.
    pub fn from_exit_code(code: i32) -> Option<Self> {
        [Self::Reboot, Self::PowerOff, Self::LockDown, Self::Kexec]
            .into_iter()
            .find(|ending| i32::from(ending.exit_code()) == code)
    }
}

/// How long init waits for sync(2): if a disk no longer answers, sync(2) blocks
/// forever. The installed system is safe without sync(2), because the agent flushes its
/// own writes.
const SYNC_LIMIT: Duration = Duration::from_secs(30);

fn sync_within(limit: Duration) {
    let (done, synced) = sync_channel(1);
    let started = thread::Builder::new()
        .name("sync".to_owned())
        .spawn(move || {
            sync();
            // Ignore an error: the receiver may have timed out.
            let _ = done.send(());
        });
    if started.is_err() || synced.recv_timeout(limit).is_err() {
        tracing::warn!("a disk does not complete its writes, continuing without it");
    }
}

/// Writes all data to the disks, lets the consoles finish, and ends the boot.
pub fn carry_out(ending: Ending, flush_consoles: impl FnOnce()) -> ! {
    tracing::info!("{} now", ending.doing());
    sync_within(SYNC_LIMIT);
    // After sync(2), a reset by Ctrl-Alt-Del does no harm. The operator needs it if the
    // end of the boot hangs.
    if let Err(error) = set_cad_enabled(true) {
        tracing::debug!("cannot give Ctrl-Alt-Del back to the kernel: {error}");
    }
    if ending == Ending::LockDown {
        lock_down();
        flush_consoles();
        stay();
    }
    flush_consoles();
    if ending == Ending::Kexec {
        // This call returns only if no kernel is loaded. In that case reboot: the
        // firmware then starts the installed system from the disk.
        let Err(error) = reboot(RebootMode::RB_KEXEC);
        tracing::error!("cannot start the loaded kernel: {error}; rebooting instead");
    }
    let (mode, sysrq) = match ending {
        Ending::Reboot | Ending::Kexec => (RebootMode::RB_AUTOBOOT, "b"),
        Ending::PowerOff | Ending::LockDown => (RebootMode::RB_POWER_OFF, "o"),
    };
    // This call returns only if the kernel refuses.
    let Err(error) = reboot(mode);
    tracing::error!(
        "cannot reboot or power off: {error}; trying sysrq -- if nothing happens, reset the machine through its BMC"
    );
    // Ignore a second failure, because no other way is left.
    let _ = fs::write("/proc/sysrq-trigger", sysrq);
    stay();
}

/// Takes all network links down. They stay down, because the agent, which could bring
/// them up again, has ended.
fn lock_down() {
    let faults = link_flags::take_all_down();
    for fault in faults {
        tracing::warn!("{fault}");
    }
    tracing::warn!("locked down: no link is up; reset the machine through its BMC to continue");
}

/// Does nothing forever, because PID 1 must not return.
pub(super) fn stay() -> ! {
    loop {
        nix::unistd::pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_go_there_and_back_and_a_crash_is_no_ending() {
        for ending in [
            Ending::Reboot,
            Ending::PowerOff,
            Ending::LockDown,
            Ending::Kexec,
        ] {
            assert_eq!(
                Ending::from_exit_code(ending.exit_code().into()),
                Some(ending)
            );
        }
        for code in [0, 1, 2, 101, 134, 137] {
            assert_eq!(Ending::from_exit_code(code), None);
        }
    }
}
