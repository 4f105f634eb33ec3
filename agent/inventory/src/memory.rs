//! Determines how much memory the kernel manages, and how much is installed.

use super::report_types::Memory;
use super::system_path::SystemPath;
use super::{Warning, smbios, sysfs};

/// DSP0134 7.17: the type of the structure of a memory array, and the value of its field
/// "Use" for system memory.
const PHYSICAL_MEMORY_ARRAY: u8 = 16;
const USE_SYSTEM_MEMORY: u8 = 3;
/// DSP0134 7.18: the structure of a memory module.
const MEMORY_DEVICE: u8 = 17;

/// Reads /proc/meminfo and the SMBIOS table.
pub fn collect(root: &SystemPath) -> (Memory, Vec<Warning>) {
    let mut warnings = Vec::new();
    let total = sysfs::text(&root.join("proc/meminfo")).and_then(|text| mem_total(&text));
    if total.is_none() {
        warnings.push(Warning::new(
            "no MemTotal in /proc/meminfo: usable memory is unknown",
        ));
    }
    let physical_mb = sysfs::bytes(&root.join("sys/firmware/dmi/tables/DMI"))
        .map(|table| modules_mib(&table))
        .filter(|&mib| mib > 0);
    if physical_mb.is_none() {
        warnings.push(Warning::new(
            "no memory modules in the SMBIOS table: installed memory is unknown",
        ));
    }
    (Memory { total, physical_mb }, warnings)
}

/// Converts `MemTotal:        1156064 kB` to bytes.
fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The sum of all modules that are system memory, in MiB. Flash chips and caches are also
/// memory devices, but they belong to arrays with another use.
pub fn modules_mib(table: &[u8]) -> u64 {
    let foreign: Vec<u16> = smbios::structures(table)
        .filter(|array| {
            array.kind == PHYSICAL_MEMORY_ARRAY
                && array
                    .byte(5)
                    .is_some_and(|purpose| purpose != USE_SYSTEM_MEMORY)
        })
        .map(|array| array.handle)
        .collect();
    let kilobytes: u64 = smbios::structures(table)
        .filter(|module| {
            module.kind == MEMORY_DEVICE
                && module.word(4).is_none_or(|array| !foreign.contains(&array))
        })
        .filter_map(|module| module_kib(&module))
        .sum();
    kilobytes / 1024
}

fn module_kib(module: &smbios::Structure<'_>) -> Option<u64> {
    match module.word(0x0c)? {
        // 0 means no module, 0xffff means that the size is unknown.
        0 | 0xffff => None,
        // A size of 32 GiB or more does not fit into this field. It is in the extended
        // size, in MiB.
        0x7fff => Some(u64::from(module.double_word(0x1c)? & 0x7fff_ffff) * 1024),
        // The highest bit is set if the unit is KiB, and clear if it is MiB.
        size if size & 0x8000 != 0 => Some(u64::from(size & 0x7fff)),
        size => Some(u64::from(size) * 1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(handle: u16, purpose: u8) -> Vec<u8> {
        let [low, high] = handle.to_le_bytes();
        vec![16, 6, low, high, 3, purpose, 0, 0]
    }

    fn module(array: u16, size: u16, extended: u32) -> Vec<u8> {
        let mut bytes = vec![17, 0x20, 0, 0x11];
        bytes.extend(array.to_le_bytes());
        bytes.resize(0x0c, 0);
        bytes.extend(size.to_le_bytes());
        bytes.resize(0x1c, 0);
        bytes.extend(extended.to_le_bytes());
        bytes.extend([0, 0]);
        bytes
    }

    #[test]
    fn sums_the_modules() {
        let system = array(0x1000, 3);
        for (table, expected) in [
            (vec![], 0),
            (vec![system.clone(), module(0x1000, 2560, 0)], 2560),
            (
                vec![
                    system.clone(),
                    module(0x1000, 0x4000, 0),
                    module(0x1000, 0x4000, 0),
                ],
                32768,
            ),
            (vec![system.clone(), module(0x1000, 0, 0)], 0),
            (vec![system.clone(), module(0x1000, 0xffff, 0)], 0),
            (vec![system.clone(), module(0x1000, 0x7fff, 65536)], 65536),
            (vec![system.clone(), module(0x1000, 0x8000 | 2048, 0)], 2),
            (vec![module(0x1000, 512, 0)], 512),
            (
                vec![
                    system,
                    array(0x1001, 5),
                    module(0x1000, 1024, 0),
                    module(0x1001, 0x8000 | 0x4000, 0),
                ],
                1024,
            ),
        ] {
            assert_eq!(modules_mib(&table.concat()), expected, "{table:?}");
        }
    }

    #[test]
    fn old_firmware_has_no_extended_size() {
        let mut short = module(0, 0x7fff, 1);
        short[1] = 0x1b;
        assert_eq!(modules_mib(&short), 0);
    }

    #[test]
    fn mem_total_is_in_bytes() {
        assert_eq!(
            mem_total("MemTotal:        1156064 kB\nMemFree: 1 kB\n"),
            Some(1_183_809_536)
        );
        for text in [
            "",
            "MemTotal:",
            "MemTotal: x kB",
            "MemTotal: 5",
            "MemFree: 5 kB",
        ] {
            assert_eq!(mem_total(text), None, "{text}");
        }
    }
}
