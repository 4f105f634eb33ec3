//! The serial ports that the firmware's ACPI tables SPCR name as its consoles.
//!
//! Serial over LAN of a BMC shows such a port. On x86 the kernel does not make the port a
//! console by itself (`acpi_boot_init` in arch/x86/kernel/acpi/boot.c). So with the usual
//! kernel arguments (`console=ttyS0`), a BMC that shows COM2 would show no output of the
//! ramdisk.

use std::fs::{self, File};
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::Path;

/// In bytes: the size limit of a table. A table has 80 bytes; in newer versions it also
/// has a name.
const MAX_TABLE_BYTES: u64 = 4096;
/// In bytes: the part of the table that every version has.
const TABLE_BYTES: usize = 80;
/// The first revision of the table that has a field for the precise speed (revision 1.09
/// of the specification). In tables of older revisions this field may have any value
/// (commit "ACPI: SPCR: Check SPCR version before using precise baudrate" of Linux 6.18).
const PRECISE: u8 = 4;
/// In bit/s: the precise speeds that the agent accepts, up to the highest one in termios(3).
const SPEEDS: RangeInclusive<u32> = 300..=4_000_000;
/// In bit/s: the speed if the table names no speed, or says that the system should keep
/// the firmware's speed. A program cannot keep that speed: the kernel sets 9600 bit/s
/// when the port is opened (`uart_port_startup`, and `init_termios` in
/// `uart_register_driver`), and no program can read the earlier speed. Landfall's boot
/// media use `USUAL_SPEED` for ttyS0.
const USUAL_SPEED: u32 = 115_200;

/// A serial port of the firmware (Microsoft, "Serial Port Console Redirection Table").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirmwarePort {
    place: Place,
    /// In bit/s.
    pub speed: u32,
}

/// Where the registers of a port are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Memory(u64),
    IoPort(u64),
}

impl FirmwarePort {
    /// The port of a table. `None` if the table is no SPCR table, is cut off, or names no
    /// port with an address in memory or in I/O space.
    pub fn of_table(table: &[u8]) -> Option<Self> {
        if !table.starts_with(b"SPCR") || table.len() < TABLE_BYTES {
            return None;
        }
        let address = table.get(44..52)?.try_into().ok()?;
        let place = match (u64::from_le_bytes(address), table.get(40)?) {
            // The firmware has no console on a serial port.
            (0, _) => return None,
            (address, 0) => Place::Memory(address),
            (address, 1) => Place::IoPort(address),
            _ => return None,
        };
        let speed = Self::precise_speed(table).unwrap_or(match table.get(58)? {
            3 => 9600,
            4 => 19_200,
            6 => 57_600,
            _ => USUAL_SPEED,
        });
        Some(Self { place, speed })
    }

    /// The precise speed, which takes precedence over the code of the speed in byte 58.
    /// `None` if the table has no such field or the field has no valid value.
    fn precise_speed(table: &[u8]) -> Option<u32> {
        let speed = table.get(80..84)?.try_into().ok()?;
        let speed = u32::from_le_bytes(speed);
        (*table.get(8)? >= PRECISE && SPEEDS.contains(&speed)).then_some(speed)
    }
}

/// The serial devices of this machine that the SPCR tables name, such as `ttyS1`, each
/// with the port of the table. `sys` is /sys.
pub(super) fn of_machine(sys: &Path) -> Vec<(String, FirmwarePort)> {
    let ports = tables(&sys.join("firmware/acpi/tables"));
    if ports.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(sys.join("class/tty")).into_iter().flatten() {
        let Ok(entry) = entry else { continue };
        let Some(place) = place_of(&entry.path()) else {
            continue;
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        let port = ports.iter().find(|port| port.place == place);
        found.extend(port.map(|port| (name, *port)));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// The ports of all SPCR tables. The kernel appends a number to the file name of a
/// further table: SPCR2.
fn tables(directory: &Path) -> Vec<FirmwarePort> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.strip_prefix("SPCR").is_some_and(is_number)
        })
        .filter_map(|entry| {
            let mut table = Vec::new();
            let file = File::open(entry.path()).ok()?;
            file.take(MAX_TABLE_BYTES).read_to_end(&mut table).ok()?;
            FirmwarePort::of_table(&table)
        })
        .collect()
}

/// The address of the registers of a serial port, from its directory in /sys/class/tty.
/// `None` for a device name without hardware (type 0, `PORT_UNKNOWN`), and for terminals
/// that are no serial ports (drivers/tty/serial/serial_core.c).
fn place_of(folder: &Path) -> Option<Place> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let address = |name: &str| {
        let text = text(name)?;
        let digits = text
            .trim()
            .trim_start_matches("0x")
            .trim_start_matches("0X");
        u64::from_str_radix(digits, 16).ok()
    };
    if text("type")?.trim() == "0" {
        return None;
    }
    match (address("iomem_base")?, address("port")?) {
        (0, 0) => None,
        (0, port) => Some(Place::IoPort(port)),
        (memory, _) => Some(Place::Memory(memory)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An SPCR table for a port at `address`. `space` is the ACPI address space ID: 0 is
    /// memory, 1 is I/O ports. `speed` is the code of the speed: 3 is 9600 bit/s, 7 is
    /// 115200 bit/s.
    pub(in crate::console) fn table(space: u8, address: u64, speed: u8) -> Vec<u8> {
        let mut table = vec![0; TABLE_BYTES];
        table[..4].copy_from_slice(b"SPCR");
        table[40] = space;
        table[44..52].copy_from_slice(&address.to_le_bytes());
        table[58] = speed;
        table
    }

    pub(in crate::console) fn put(sys: &Path, path: &str, content: impl AsRef<[u8]>) {
        let path = sys.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A serial port as sysfs shows it. `kind` is the number of the UART's type, 0 if
    /// there is no UART; `port` and `memory` are hexadecimal addresses.
    pub(in crate::console) fn port(sys: &Path, name: &str, kind: &str, port: &str, memory: &str) {
        for (file, text) in [("type", kind), ("port", port), ("iomem_base", memory)] {
            put(
                sys,
                &format!("class/tty/{name}/{file}"),
                format!("{text}\n"),
            );
        }
    }

    #[test]
    fn ports_of_tables() {
        let io = |speed| Place::IoPort(0x2f8).at(speed);
        let precise = |revision, code, speed: u32| {
            let mut table = table(1, 0x2f8, code);
            table[8] = revision;
            table.extend(speed.to_le_bytes());
            table
        };
        for (table, expected) in [
            (table(1, 0x2f8, 7), Some(io(115_200))),
            (table(1, 0x2f8, 3), Some(io(9600))),
            (table(1, 0x2f8, 0), Some(io(115_200))),
            (
                table(0, 0xfe03_4000, 6),
                Some(Place::Memory(0xfe03_4000).at(57_600)),
            ),
            (precise(4, 0, 921_600), Some(io(921_600))),
            (precise(4, 7, 250_000), Some(io(250_000))),
            (precise(4, 3, 0), Some(io(9600))),
            (precise(4, 3, u32::MAX), Some(io(9600))),
            (precise(4, 3, 921_600)[..83].to_vec(), Some(io(9600))),
            (precise(2, 3, 921_600), Some(io(9600))),
            (table(1, 0, 7), None),
            (table(3, 0x2f8, 7), None),
            (table(1, 0x2f8, 7)[..79].to_vec(), None),
            (vec![0; 80], None),
        ] {
            assert_eq!(FirmwarePort::of_table(&table), expected);
        }
    }

    impl Place {
        fn at(self, speed: u32) -> FirmwarePort {
            FirmwarePort { place: self, speed }
        }
    }

    #[test]
    fn every_table_has_its_port() {
        let dir = tempfile::tempdir().unwrap();
        let sys = dir.path();
        let tables = "firmware/acpi/tables";
        assert_eq!(of_machine(sys), []);
        put(sys, &format!("{tables}/SPCR"), table(1, 0x2f8, 7));
        put(sys, &format!("{tables}/SPCR2"), table(0, 0xfe03_4000, 7));
        put(sys, &format!("{tables}/SPCRX"), table(1, 0x3f8, 7));
        put(sys, "class/tty/tty0/dev", "4:0\n");
        port(sys, "ttyS0", "4", "0x3F8", "0x0");
        port(sys, "ttyS1", "4", "0x2F8", "0x0");
        // Type 0: the kernel has found no UART at this address.
        port(sys, "ttyS3", "0", "0x2F8", "0x0");
        port(sys, "ttyS4", "4", "0x0", "0xFE034000");
        let names = of_machine(sys).into_iter().map(|(name, _)| name);
        assert_eq!(names.collect::<Vec<_>>(), ["ttyS1", "ttyS4"]);
    }
}
