//! Virtual machines: the description of a machine, and a running machine.

mod accelerator;
mod arguments;
mod console;
mod framebuffer;
mod guest;
mod qmp;
mod screen_text;

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
    /// On the machine's own AHCI controller, 0000:00:1f.2. Debian's cloud kernel has no
    /// driver for it.
    Sata,
}

/// A disk, stored in a raw file.
#[derive(Debug, Clone)]
pub struct Disk {
    pub path: PathBuf,
    /// The controller on which the guest sees the disk.
    pub bus: Bus,
    /// Absent at power on, until [`Guest::plug`]. Only for SCSI disks: their
    /// controller is present and accepts a disk at any time.
    pub unplugged: bool,
    pub fault: Option<DiskFault>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// The disk rejects writes.
    ReadOnly,
    /// Every read fails with an I/O error, as with a locked disk.
    Unreadable,
    /// Writes to the 512-byte sector of this number fail with an I/O error.
    BadSector(u64),
}

/// A NIC at one end of a cable between two machines. Nothing in between filters
/// frames, as a bridge would filter LACP frames.
#[derive(Debug, Clone)]
pub struct Cord {
    pub mac: String,
    pub number: u16,
    /// The end of the cable that the NIC is on.
    pub end: CordEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CordEnd {
    /// The end of the host that a test is about.
    Host,
    /// The end of the host's [`crate::peer::Peer`].
    Peer,
}

/// How the machine finds a kernel.
#[derive(Debug, Clone)]
pub enum Boot {
    /// QEMU loads kernel and ramdisk itself, without a firmware menu or boot
    /// loader.
    Direct {
        kernel: PathBuf,
        ramdisk: PathBuf,
        arguments: String,
    },
    /// Boots from the disk. If that fails, boots an ISO in the CD drive.
    Iso(PathBuf),
    /// Boots from an ISO on a writable USB stick. UEFI tries it after the disk. A BIOS
    /// boots only one hard disk: the stick, until it is pulled out.
    UsbStick(PathBuf),
    /// Boots from the disk. If that fails, boots through the first NIC with the
    /// iPXE in its option ROM. BIOS only: newer OVMF prefers its own driver to the
    /// ROM.
    IpxeRom,
    /// Boots from the disk. If that fails, boots through the first NIC with the
    /// firmware's own PXE client. OVMF has one, SeaBIOS does not.
    FirmwarePxe,
    /// Like [`Boot::FirmwarePxe`], with the firmware's HTTP client. UEFI only.
    FirmwareHttp,
    /// Boots only from the disk.
    Disk,
}

impl Machine {
    fn has_secure_boot(&self) -> bool {
        let mut extras = self.extras.iter();
        extras.any(|extra| matches!(extra, Extra::SecureBoot))
    }
}

impl Boot {
    /// The file of the ISO or USB stick.
    #[must_use]
    pub fn medium(&self) -> Option<&Path> {
        match self {
            Self::Iso(path) | Self::UsbStick(path) => Some(path),
            _ => None,
        }
    }
}

/// A device, or another part of the machine, that few tests need.
#[derive(Debug, Clone)]
pub enum Extra {
    /// The watchdog of an Intel chipset, running from power on, as firmware may
    /// leave it.
    RunningWatchdog,
    /// A hypervisor console, `hvc0`, with its output in this file.
    HypervisorConsole(PathBuf),
    /// UEFI firmware with Secure Boot, which trusts Microsoft's keys.
    SecureBoot,
    /// A second serial port, with its output in the file `output`. The firmware's ACPI
    /// table SPCR names it as the console; the content of the table without its header is
    /// in the file `table`.
    FirmwareConsole { output: PathBuf, table: PathBuf },
    /// A USB disk, stored in this raw file.
    UsbDisk(PathBuf),
    /// A USB keyboard as BMCs emulate it, in place of the PS/2 keyboard.
    UsbKeyboard,
    /// A NIC without a driver in the ramdisk: a DECchip 21143.
    OldNic,
    /// A NIC whose driver (e100) requests firmware when the NIC is brought up, and does
    /// not work without it: an Intel 82551.
    NicWithFirmware,
    /// The machine's serial number in its SMBIOS. Without it there is none.
    SerialNumber(&'static str),
    /// An option of QEMU and its value.
    QemuOption(&'static str, String),
}

/// The content of an ACPI table SPCR that names COM2 at 115200 bit/s, without the header
/// of all tables (Microsoft, "Serial Port Console Redirection Table", revision 2).
pub const COM2_IS_THE_CONSOLE: [u8; 44] = {
    let mut table = [0; 44];
    // An I/O port of 8 bits at 0x2f8.
    table[4] = 1;
    table[5] = 8;
    table[7] = 1;
    [table[8], table[9]] = 0x2f8_u16.to_le_bytes();
    // A PC-AT interrupt: IRQ 3.
    table[16] = 1;
    table[17] = 3;
    // The speed (115200 bit/s), one stop bit, the terminal type VT-UTF8.
    table[22] = 7;
    table[24] = 1;
    table[26] = 2;
    table
};

/// The description of a machine.
#[derive(Debug, Clone)]
pub struct Machine {
    pub firmware: Firmware,
    pub processors: u8,
    pub memory_mib: u32,
    /// The disks in the order of their PCI slots.
    pub disks: Vec<Disk>,
    /// The MAC addresses of the NICs on the lab's taps.
    pub nics: Vec<String>,
    /// The index of the first NIC's tap. The other NICs use the following taps.
    pub first_tap: usize,
    /// NICs on cables. They come after the NICs on taps.
    pub cords: Vec<Cord>,
    /// A data ISO in the CD drive. Not with [`Boot::Iso`].
    pub data_medium: Option<PathBuf>,
    /// Whether the machine has a free slot, and leaves the next tap free, for a NIC
    /// that [`Guest::plug_nic`] adds later.
    pub late_nic: bool,
    pub extras: Vec<Extra>,
    pub boot: Boot,
    /// The file that keeps the UEFI variables from one start to the next.
    pub variables: PathBuf,
    /// The file of the firmware's error record store (ERST), if the machine has
    /// one.
    pub error_records: Option<PathBuf>,
}
