//! A guest at the far end of the host's cables, which plays the switch of a machine
//! room.
//!
//! The peer tags, bonds and speaks LACP as Linux does, and bridges incoming traffic to
//! the lab with the conductor, the image server and dnsmasq. So a host that reaches the
//! conductor has used the VLAN or bond under test. A peer can also be the storage at
//! the other end of a cable that connects to nothing else.
//!
//! The ramdisk in `tests/peer` has a shell on the serial console, and this module
//! types commands into it. The peer's NICs are `eth0` on a tap of the lab, then one
//! for each cable: `eth1`, `eth2`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::artifacts;
use crate::journal::{Mark, Source};
use crate::lab::{Lab, PEER_TAP};
use crate::vm::{Boot, Bus, Cord, CordEnd, Disk, Firmware, Guest, Machine, Voice};

/// The MAC addresses of the peer's NICs, without the last digit, which is the
/// number of the NIC.
const MAC: &str = "52:54:00:c0:fe:0";
/// The MAC addresses of the host's NICs, without the last digit, which is the
/// number of the cable.
const HOST_MAC: &str = "52:54:00:c0:fd:0";

/// The address of the storage that [`Peer::nvme_tcp`] starts.
pub const STORAGE_V4: &str = "198.51.100.1";

/// The time limit for the start of busybox on an emulated processor, on a busy
/// machine.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Limit for any one command.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// Start of the line that the peer's shell prints after each command.
const END: &str = "PEER: exit ";

const VOICE: Voice = Voice {
    console: Source::Peer,
    machine: Source::Peer,
};

/// The running peer. Dropping it ends the guest.
pub struct Peer {
    guest: Guest,
}

/// The MAC address of the host's NIC at a cable.
#[must_use]
pub fn host_mac(number: u16) -> String {
    format!("{HOST_MAC}{number}")
}

/// The host's ends of `count` cables, for [`Machine::cords`].
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
    /// Starts a peer with this number of cables and runs the commands of `setup`.
    /// Each command must succeed.
    pub async fn start(lab: &Lab, cables: u16, setup: &[&str]) -> Result<Self> {
        Self::start_with(lab, cables, Vec::new(), setup).await
    }

    async fn start_with(lab: &Lab, cables: u16, disks: Vec<Disk>, setup: &[&str]) -> Result<Self> {
        let end = |number| Cord {
            mac: format!("{MAC}{}", number + 1),
            number,
            end: CordEnd::Peer,
        };
        let machine = Machine {
            firmware: Firmware::Bios,
            processors: 1,
            memory_mib: 192,
            disks,
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

    /// Starts a peer that bonds two cables with LACP. It drops frames that do not
    /// have VLAN tag 50.
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

    /// Starts a peer that drops frames on its one cable that do not have VLAN tag 50.
    pub async fn vlan(lab: &Lab) -> Result<Self> {
        const SETUP: &[&str] = &[
            "ip link set eth0 up",
            "ip link set eth1 up",
            "ip link add link eth1 name eth1.50 type vlan id 50",
            "ip link set eth1.50 up",
            "brctl addbr br0",
            "brctl addif br0 eth0",
            "brctl addif br0 eth1.50",
            "ip link set br0 up",
        ];
        Self::start(lab, 1, SETUP).await
    }

    /// Starts a peer that offers this disk by NVMe/TCP at its only cable: as namespace
    /// 1 of `subsystem`, at [`STORAGE_V4`] and port 4420, and to `host` only.
    pub async fn nvme_tcp(lab: &Lab, disk: &Path, subsystem: &str, host: &str) -> Result<Self> {
        let disk = Disk {
            path: disk.to_owned(),
            bus: Bus::VirtioBlk,
            unplugged: false,
            fault: None,
        };
        // Documentation/ABI/testing/configfs-nvmet of Linux.
        let names = format!("S=subsystems/{subsystem} H=hosts/{host}");
        let address = format!("ip addr add {STORAGE_V4}/24 dev eth1");
        let traddr = format!("echo {STORAGE_V4} > ports/1/addr_traddr");
        let setup = [
            "ip link set eth1 up",
            &address,
            "modprobe virtio_blk && modprobe nvmet_tcp",
            "mount -t configfs none /sys/kernel/config && cd /sys/kernel/config/nvmet",
            &names,
            "mkdir $H $S $S/namespaces/1 ports/1",
            "ln -s /sys/kernel/config/nvmet/$H /sys/kernel/config/nvmet/$S/allowed_hosts/",
            "echo -n /dev/vda > $S/namespaces/1/device_path && echo 1 > $S/namespaces/1/enable",
            "echo tcp > ports/1/addr_trtype && echo ipv4 > ports/1/addr_adrfam",
            &traddr,
            "echo 4420 > ports/1/addr_trsvcid",
            "ln -s /sys/kernel/config/nvmet/$S /sys/kernel/config/nvmet/ports/1/subsystems/",
        ];
        Self::start_with(lab, 1, vec![disk], &setup).await
    }

    /// Ends the peer at once, and closes its disk.
    pub async fn cut_power(self) -> Result<()> {
        self.guest.cut_power().await
    }

    /// Runs one shell line and returns its output.
    pub async fn run(&mut self, lab: &Lab, command: &str) -> Result<String> {
        let mark = lab.journal.mark();
        lab.journal.record(Source::Peer, format!("# {command}"));
        self.guest.type_line(command).await?;
        let end = self.guest.console_after(mark, END, COMMAND_LIMIT).await?;
        let output = self.output_since(lab, mark);
        ensure!(
            end.text.ends_with(" 0"),
            "{command} on the peer: {}\n{output}",
            end.text
        );
        Ok(output)
    }

    fn output_since(&self, lab: &Lab, mark: Mark) -> String {
        let mut lines = lab.journal.events_after(mark);
        lines.retain(|event| event.source == Source::Peer);
        // Skip the first event: it is the command, which `run` has recorded.
        let lines = lines.iter().skip(1).map(|event| event.text.as_str());
        let lines = lines.take_while(|line| !line.starts_with(END));
        lines.collect::<Vec<_>>().join("\n")
    }
}
