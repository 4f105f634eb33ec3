//! The state of this machine and what was said on it, as one archive: what an
//! operator looks at when a deployment has failed and the machine is gone.
//!
//! The members have the names that Ironic's operators know from the original,
//! and the content of the commands that these were named after, made natively.
//! What would need a program that this ramdisk does not carry (`lshw`, `parted`,
//! `multipath`, `iptables`) is left out, as the original does without it.

mod addresses;
mod archive;
mod block_devices;
mod journal;
pub mod kernel_log;
mod mounts;
mod processes;
mod system_journal;

pub use archive::{Member, pack};

#[cfg(test)]
pub(crate) use archive::unpack;

use std::fs;
use std::path::Path;

use crate::permission::Home;
use crate::report::lines_said;
use crate::state_file::STATE_DIRECTORY;

/// Where a log file of the agent would be, had it one: the lines of the agent
/// alone.
const AGENT_LOG: &str = "var/log/ironic-python-agent.log";

/// Everything that can be told without a look into disks or firmware. With
/// `most` the journal has that many lines, its last.
pub fn members(most: Option<usize>) -> Vec<Member> {
    let (kernel, agent) = (kernel_log::records(), lines_said());
    let times = |said: &[crate::report::Said]| {
        journal::lines(said.iter().map(|line| (line.time, line.text.as_str())))
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
    // What could not be read says nothing (a kernel without RAID has no mdstat).
    members.retain(|member| !member.content.is_empty());
    members
}

#[cfg(test)]
mod tests {
    use super::*;

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
