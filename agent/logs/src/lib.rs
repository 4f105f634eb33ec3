//! Collects the state and the logs of this machine in one archive. An operator
//! reads it when a deployment has failed and the machine is gone.
//!
//! The members have the names that operators know from Ironic's agent: most are names of
//! commands. The agent makes the same content without these commands. Members that would
//! need a program that is not in this ramdisk (`lshw`, `parted`, `multipath`, `iptables`)
//! are left out. Ironic's agent also leaves out members whose program is missing.

mod addresses;
mod archive;
mod block_devices;
#[cfg(any(test, feature = "fixtures"))]
#[allow(clippy::unwrap_used, reason = "for tests")]
pub mod fixtures;
mod for_anyone;
mod journal;
mod mounts;
mod processes;
mod system_journal;

pub use archive::{Member, pack};
pub use for_anyone::{keep_for_anyone, kept_for_anyone};

use std::fs;
use std::path::Path;

use landfall_devices::permission::Home;
use landfall_report::log_lines;
use landfall_sys::state_file::STATE_DIRECTORY;

/// The path of the member with only the agent's own lines. Ironic's agent has its log
/// file there.
const AGENT_LOG: &str = "var/log/ironic-python-agent.log";

/// The members that are available without reading disks or firmware. If `most` is given,
/// the journal has at most that many lines, the latest ones.
pub fn members(most: Option<usize>) -> Vec<Member> {
    let (kernel, agent) = (landfall_report::kernel_log::records(), log_lines());
    let times = |lines: &[landfall_report::LogLine]| {
        journal::lines(lines.iter().map(|line| (line.time, line.text.as_str())))
    };
    let proc = |name: &str| fs::read_to_string(Path::new("/proc").join(name)).unwrap_or_default();
    let mounts = proc("self/mounts");
    let network = Path::new(STATE_DIRECTORY).join("network.json");
    let network = fs::read_to_string(network).unwrap_or_default();
    let of_the_system = Home::is_live_system().then(|| system_journal::read(most));
    let journal = of_the_system
        .flatten()
        .unwrap_or_else(|| journal::merge(&kernel, &agent, most));
    let mut members = vec![
        Member::new("journal", journal),
        Member::new("df", mounts::df(&mounts)),
        Member::new("dmesg", times(&kernel)),
        Member::new("ip_addr", addresses::ip_addr(Path::new("/sys/class/net"))),
        Member::new("lsblk", block_devices::lsblk(Path::new("/sys/block"))),
        Member::new(
            "lsblk-full",
            block_devices::lsblk_full(Path::new("/sys/block")),
        ),
        Member::new("mdstat", proc("mdstat")),
        Member::new("mount", mounts::mount(&mounts)),
        Member::new("network.json", network),
        Member::new("ps", processes::ps(Path::new("/proc"))),
        Member::new(AGENT_LOG, times(&agent)),
    ];
    // A member is empty if it could not be read. For example, a kernel without RAID has
    // no mdstat.
    members.retain(|member| !member.content.is_empty());
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::unpack;

    #[test]
    fn the_archive_of_this_machine_has_what_operators_look_for() {
        let out = unpack(&pack(&members(Some(100))));
        for name in ["df", "ip_addr", "lsblk", "mount", "ps"] {
            assert!(out.contains_key(name), "{name}: {:?}", out.keys());
        }
        for name in out.keys() {
            assert!(!name.starts_with('/'), "{name}");
        }
    }
}
