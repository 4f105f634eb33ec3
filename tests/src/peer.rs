//! A guest at the far end of the host's cables: the switch of a machine room.
//!
//! It tags, bonds and speaks LACP as Linux does, and bridges what comes in to
//! the lab, where the conductor, the image server and dnsmasq are. So a boot
//! that gets anywhere has gone through the VLAN or bond that it is about.
//!
//! `tests/peer` has its ramdisk: a shell on the serial console, which this
//! types to. Its NICs are `eth0` on a tap of the lab, then one for each
//! cable: `eth1`, `eth2`.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::artifacts;
use crate::journal::{Mark, Source};
use crate::lab::{Lab, PEER_TAP};
use crate::vm::{Boot, Cord, CordEnd, Firmware, Guest, Machine, Voice};

/// The peer's own NICs have these addresses; the last byte is the number.
const MAC: &str = "52:54:00:c0:fe:0";
/// Those of the host's end of each cable.
const HOST_MAC: &str = "52:54:00:c0:fd:0";

/// busybox on an emulated processor that others want as well.
const START_LIMIT: Duration = Duration::from_secs(120);
/// For any one command.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// How a line of its shell ends.
const END: &str = "PEER: exit ";

const VOICE: Voice = Voice {
    console: Source::Peer,
    machine: Source::Peer,
};

/// The peer; dropped, it is gone.
pub struct Peer {
    guest: Guest,
}

/// The hardware address of the host's NIC at a cable.
#[must_use]
pub fn host_mac(number: u16) -> String {
    format!("{HOST_MAC}{number}")
}

/// The host's ends of so many cables, for [`Machine::cords`].
#[must_use]
pub fn host_ends(count: u16) -> Vec<Cord> {
    let end = |number| Cord {
        mac: host_mac(number),
        number,
        end: CordEnd::Host,
    };
    (0..count).map(end).collect()
}

impl Peer {
    /// Starts the peer of a host with so many cables, and has it run the
    /// commands of `setup`, each of which must succeed.
    pub async fn start(lab: &Lab, cables: u16, setup: &[&str]) -> Result<Self> {
        let end = |number| Cord {
            mac: format!("{MAC}{}", number + 1),
            number,
            end: CordEnd::Peer,
        };
        let machine = Machine {
            firmware: Firmware::Bios,
            memory_mib: 192,
            disks: Vec::new(),
            nics: vec![format!("{MAC}0")],
            first_tap: PEER_TAP,
            cords: (0..cables).map(end).collect(),
            data_medium: None,
            extras: Vec::new(),
            late_nic: false,
            boot: Boot::Direct {
                kernel: artifacts::kernel()?,
                ramdisk: artifacts::peer_ramdisk()?,
                arguments: "console=ttyS0,115200n8 no_timer_check quiet net.ifnames=0".to_owned(),
            },
            variables: lab.path("peer-variables"),
            error_records: None,
        };
        let guest = Guest::start_as(lab, &machine, VOICE).await?;
        let mut peer = Self { guest };
        peer.guest.console("PEER: ready", START_LIMIT).await?;
        for command in setup {
            peer.run(lab, command).await?;
        }
        Ok(peer)
    }

    /// Starts one that bonds two cables by LACP; what comes in without the tag 50
    /// goes nowhere.
    pub async fn vlan_on_lacp(lab: &Lab) -> Result<Self> {
        const SETUP: &[&str] = &[
            "ip link set eth0 up",
            "ip link add bond0 type bond",
            "cd /sys/class/net/bond0/bonding",
            "echo 802.3ad > mode; echo fast > lacp_rate; echo 100 > miimon",
            "for nic in eth1 eth2; do echo +$nic > slaves; done",
            "ip link set bond0 up",
            "ip link add link bond0 name bond0.50 type vlan id 50",
            "ip link set bond0.50 up",
            "brctl addbr br0",
            "brctl addif br0 eth0",
            "brctl addif br0 bond0.50",
            "ip link set br0 up",
        ];
        Self::start(lab, 2, SETUP).await
    }

    /// Runs one line of shell and returns what it has written.
    pub async fn run(&mut self, lab: &Lab, command: &str) -> Result<String> {
        let mark = lab.journal.mark();
        lab.journal.record(Source::Peer, format!("# {command}"));
        self.guest.type_line(command).await?;
        let end = self.guest.console_after(mark, END, COMMAND_LIMIT).await?;
        let output = self.said(lab, mark);
        ensure!(
            end.text.ends_with(" 0"),
            "{command} on the peer: {}\n{output}",
            end.text
        );
        Ok(output)
    }

    fn said(&self, lab: &Lab, mark: Mark) -> String {
        let mut lines = lab.journal.events_after(mark);
        lines.retain(|event| event.source == Source::Peer);
        // The first is the command.
        let lines = lines.iter().skip(1).map(|event| event.text.as_str());
        let lines = lines.take_while(|line| !line.starts_with(END));
        lines.collect::<Vec<_>>().join("\n")
    }
}
