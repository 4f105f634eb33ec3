//! The runners of a team, and the bond modes that work in the same way.
//!
//! The kernel's team driver does nothing without a daemon. So the ramdisk uses a bond,
//! which looks the same to the switch.

/// The mode for a team without a runner. dracut's default runner is `activebackup`.
pub(crate) const DEFAULT: &str = "active-backup";

/// Each runner (teamd.conf(5)) with its bond mode.
const RUNNERS: [(&str, &str); 5] = [
    ("activebackup", DEFAULT),
    ("broadcast", "broadcast"),
    ("lacp", "802.3ad"),
    ("loadbalance", "balance-xor"),
    ("roundrobin", "balance-rr"),
];

/// The bond mode that works like the runner; `None` for `random` and unknown runners.
pub(crate) fn bond_mode(runner: &str) -> Option<&'static str> {
    let mut runners = RUNNERS.iter();
    runners
        .find(|(name, _)| *name == runner)
        .map(|(_, mode)| *mode)
}

/// The runner that works like the bond mode.
pub(crate) fn runner(bond_mode: &str) -> Option<&'static str> {
    let mut runners = RUNNERS.iter();
    runners
        .find(|(_, mode)| *mode == bond_mode)
        .map(|(name, _)| *name)
}
