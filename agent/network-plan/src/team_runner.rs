//! The runners of a team, and the modes of a bond that do the same.
//!
//! The kernel's team driver does nothing without a daemon. A bond looks the same
//! to the switch, which is what counts in a ramdisk.

/// The mode for a team without a runner: dracut's default, `activebackup`.
pub(crate) const DEFAULT: &str = "active-backup";

/// Runner (teamd.conf(5)) and mode.
const RUNNERS: [(&str, &str); 5] = [
    ("activebackup", DEFAULT),
    ("broadcast", "broadcast"),
    ("lacp", "802.3ad"),
    ("loadbalance", "balance-xor"),
    ("roundrobin", "balance-rr"),
];

/// The mode that does what the runner does; `random` has none.
pub(crate) fn bond_mode(runner: &str) -> Option<&'static str> {
    let mut runners = RUNNERS.iter();
    runners
        .find(|(name, _)| *name == runner)
        .map(|(_, mode)| *mode)
}

/// The runner that does what the mode does.
pub(crate) fn runner(bond_mode: &str) -> Option<&'static str> {
    let mut runners = RUNNERS.iter();
    runners
        .find(|(_, mode)| *mode == bond_mode)
        .map(|(name, _)| *name)
}
