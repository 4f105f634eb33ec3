//! Checks that the kernel has unpacked the whole ramdisk.
//!
//! The builder writes a marker as the last file. If the kernel runs out of memory, or
//! if the ramdisk was truncated during its transfer, the kernel stops unpacking
//! somewhere in the middle. The kernel still boots, but without most drivers, which
//! looks like many other faults. So if the marker is missing, init stops here and shows
//! the reason on the console.

use std::fs;
use std::path::Path;
use std::time::Duration;

use landfall_module_index::COMPLETE_MARKER;
use landfall_report::kernel_log;
use landfall_report::status::{self, Host};
use nix::sys::statfs::statfs;

/// How often the reason is printed again, so that it is still on the console
/// after hours.
const REPEAT_INTERVAL: Duration = Duration::from_secs(600);

/// In bytes. With less free space the root file system counts as full, because the
/// kernel may have failed to unpack the largest module, which has 8 MiB. The files in
/// the root file system may use half of the memory.
const FULL: u64 = 16 << 20;

/// What is wrong with the ramdisk, if it is not complete.
pub(super) fn fault() -> Option<String> {
    if Path::new("/").join(COMPLETE_MARKER).exists() {
        return None;
    }
    let space = statfs("/").map_or(Space::default(), |root| Space {
        total: root
            .blocks()
            .saturating_mul(root.block_size().unsigned_abs()),
        free: root
            .blocks_free()
            .saturating_mul(root.block_size().unsigned_abs()),
    });
    Some(reason(space, memory_of_kernel(), &kernel_log::texts()))
}

/// Shows the fault until the machine is reset.
pub(super) fn stop(fault: &str) -> ! {
    status::update(|status| status.host = host());
    status::begin_step("stopped: the ramdisk is not complete");
    loop {
        tracing::error!("{fault}");
        std::thread::sleep(REPEAT_INTERVAL);
    }
}

/// The machine, as far as it is known without the agent.
fn host() -> Host {
    let dmi = |name: &str| {
        let text = fs::read_to_string(Path::new("/sys/class/dmi/id").join(name));
        text.unwrap_or_default().trim().to_owned()
    };
    let is_uefi = Path::new("/sys/firmware/efi").exists();
    Host {
        vendor: dmi("sys_vendor"),
        product: dmi("product_name"),
        serial: dmi("product_serial"),
        boot_mode: if is_uefi { "uefi" } else { "bios" }.to_owned(),
        memory: Some(memory_of_kernel()),
        ..Host::default()
    }
}

/// In MiB.
fn memory_of_kernel() -> u64 {
    memory_mib(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

#[derive(Debug, Clone, Copy, Default)]
struct Space {
    total: u64,
    free: u64,
}

fn reason(space: Space, memory_mib: u64, log: &[String]) -> String {
    // Only a root file system with a size limit can be full. Without a limit (ramfs) the
    // kernel would have panicked.
    let is_full = space.total > 0 && space.free < FULL;
    if is_full {
        return format!(
            "the ramdisk does not fit into memory: the kernel has {memory_mib} MiB, of which files may take {} MiB -- give this machine at least 512 MiB, or build the ramdisk with fewer modules, and reset it",
            space.total >> 20
        );
    }
    const UNPACKING: &str = "Initramfs unpacking failed: ";
    let fault = log.iter().find_map(|line| line.strip_prefix(UNPACKING));
    format!(
        "the ramdisk is not complete ({}) -- its file is damaged or was cut off while the boot loader read it: compare its size and digest with the original, and reset this machine",
        fault.unwrap_or("its last file is missing")
    )
}

/// Reads the line `MemTotal:         204800 kB`.
fn memory_mib(meminfo: &str) -> u64 {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() >> 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_and_a_damaged_file_have_different_remedies() {
        let memory = memory_mib("MemTotal:         196608 kB\nMemFree: 1 kB\n");
        assert_eq!(memory, 192);
        let log = [
            "Linux version 6.1",
            "Initramfs unpacking failed: write error",
        ]
        .map(str::to_owned);
        let full = Space {
            total: 96 << 20,
            free: 1 << 20,
        };
        let text = reason(full, memory, &log);
        assert!(
            text.contains("the kernel has 192 MiB, of which files"),
            "{text}"
        );
        assert!(
            text.contains("take 96 MiB -- give this machine at least 512 MiB"),
            "{text}"
        );
        let roomy = Space {
            total: 256 << 20,
            free: 200 << 20,
        };
        let log =
            ["Initramfs unpacking failed: ZSTD-compressed data is truncated"].map(str::to_owned);
        let text = reason(roomy, 512, &log);
        assert!(
            text.contains("(ZSTD-compressed data is truncated) -- its file is damaged"),
            "{text}"
        );
        let text = reason(Space::default(), 512, &[]);
        assert!(text.contains("(its last file is missing)"), "{text}");
    }
}
