//! Virtual machines: what a test wants of one, and one that runs.

mod accelerator;
mod arguments;
mod console;
mod guest;
mod qmp;

pub use arguments::{OVMF_CODE, OVMF_VARIABLES};
pub use console::record as record_console;
pub use guest::Guest;
pub(crate) use guest::Voice;

use std::path::{Path, PathBuf};

/// The firmware of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Firmware {
    /// SeaBIOS.
    Bios,
    /// OVMF, with variables of its own.
    Uefi,
}

/// How a disk is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bus {
    /// `/dev/vda`
    VirtioBlk,
    /// `/dev/sda`
    VirtioScsi,
    /// `/dev/sda` and `/dev/sdb`, which are two paths to one disk.
    TwoPaths,
    /// `/dev/nvme0n1`
    Nvme,
}

/// A disk: a raw file.
#[derive(Debug, Clone)]
pub struct Disk {
    /// The file.
    pub path: PathBuf,
    /// How the guest sees it.
    pub bus: Bus,
    /// Not there at power on, until [`Guest::plug`]. Only for a SCSI disk: its
    /// controller is there, and takes it at any time.
    pub unplugged: bool,
    /// What is wrong with it.
    pub fault: Option<DiskFault>,
}

/// A disk that does not do all that it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// Nothing can be written.
    ReadOnly,
    /// Every read ends with an I/O error, as of a disk that is locked.
    Unreadable,
    /// Writes to one sector of 512 bytes end with an I/O error, from the moment
    /// on when the disk was flushed so many times.
    BadSector {
        /// Which.
        sector: u64,
        /// How many flushes do well before.
        after_flushes: u8,
    },
    /// Flushes end with an I/O error, but for so many.
    NoFlush {
        /// How many do well before.
        after_flushes: u8,
    },
}

/// A NIC at one end of a cable between two machines. Nothing is in between that
/// would keep frames for itself, as a bridge does with those of LACP.
#[derive(Debug, Clone)]
pub struct Cord {
    /// The NIC's hardware address.
    pub mac: String,
    /// Which cable.
    pub number: u16,
    /// Which of its ends.
    pub end: CordEnd,
}

/// An end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CordEnd {
    /// The end of the host that a test is about.
    Host,
    /// The end of its [`crate::peer::Peer`].
    Peer,
}

/// How the machine gets to a kernel.
#[derive(Debug, Clone)]
pub enum Boot {
    /// QEMU loads kernel and ramdisk itself: no firmware menu, no boot loader.
    Direct {
        /// The kernel image.
        kernel: PathBuf,
        /// The ramdisk.
        ramdisk: PathBuf,
        /// The kernel arguments.
        arguments: String,
    },
    /// The disk, and when it does not boot, an ISO in the CD drive.
    Iso(PathBuf),
    /// The same ISO as a USB stick, which can be written to. UEFI tries it after the
    /// disk; a BIOS boots one hard disk only, so there it is the stick until it is
    /// pulled out.
    UsbStick(PathBuf),
    /// The disk, and when it does not boot, the first NIC by iPXE in its option
    /// ROM. BIOS only: newer OVMF prefers its own driver to the ROM.
    IpxeRom,
    /// The disk, and when it does not boot, the first NIC by the firmware's own
    /// PXE client. OVMF has one; SeaBIOS has none.
    FirmwarePxe,
    /// The disk and nothing else.
    Disk,
}

impl Boot {
    /// The file of the boot medium, if there is one.
    #[must_use]
    pub fn medium(&self) -> Option<&Path> {
        match self {
            Self::Iso(path) | Self::UsbStick(path) => Some(path),
            _ => None,
        }
    }
}

/// A device that few tests need.
#[derive(Debug, Clone)]
pub enum Extra {
    /// The watchdog of an Intel chip set, running from power on, as firmware
    /// leaves it.
    RunningWatchdog,
    /// `hvc0`, whose output goes into this file.
    HypervisorConsole(PathBuf),
    /// A USB disk, of this raw file.
    UsbDisk(PathBuf),
}

/// What a test wants of a machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its firmware.
    pub firmware: Firmware,
    /// Its RAM.
    pub memory_mib: u32,
    /// Its disks, in the order of their PCI slots.
    pub disks: Vec<Disk>,
    /// The MAC address of each of its NICs on taps of the lab.
    pub nics: Vec<String>,
    /// Which tap the first of them is on; the others follow.
    pub first_tap: usize,
    /// More NICs, behind those.
    pub cords: Vec<Cord>,
    /// An ISO in the CD drive that is not for booting. Not with [`Boot::Iso`].
    pub data_medium: Option<PathBuf>,
    /// Whether there is a slot, and a tap behind those of the others, for a NIC
    /// that comes later: [`Guest::plug_nic`].
    pub late_nic: bool,
    /// Devices that few tests need.
    pub extras: Vec<Extra>,
    /// What it boots.
    pub boot: Boot,
    /// Where UEFI variables live from one start to the next.
    pub variables: PathBuf,
    /// The firmware's error record store (ERST), if the machine has one.
    pub error_records: Option<PathBuf>,
}
