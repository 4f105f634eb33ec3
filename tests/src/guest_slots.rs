//! Limits how many guests run at the same time.
//!
//! An emulated guest uses about two thirds of a core: the load with two guests was 1.4.
//! The rest of the time it waits for addresses, timers and other programs. So three
//! guests run on two cores. If more guests run, all of them become slower, and time
//! limits start to fail. A guest needs 512 MiB, plus memory for QEMU and for the page
//! cache of its disk.

use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result};

/// In MiB: the memory calculated for one guest: its RAM, QEMU, and the dirty
/// pages of its disk.
const MIB_PER_GUEST: u64 = 1024;

struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A right to run one guest. Dropping it frees the slot.
pub struct Slot(&'static Slots);

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

/// Waits for a free slot.
pub fn take() -> Result<Slot> {
    static SLOTS: OnceLock<Slots> = OnceLock::new();
    let meminfo = std::fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    let slots = SLOTS.get_or_init(|| Slots {
        free: Mutex::new(how_many(
            std::thread::available_parallelism().map_or(1, usize::from),
            available_mib(&meminfo).unwrap_or(MIB_PER_GUEST),
        )),
        freed: Condvar::new(),
    });
    let free = slots.free.lock().unwrap_or_else(PoisonError::into_inner);
    let mut free = slots
        .freed
        .wait_while(free, |free| *free == 0)
        .unwrap_or_else(PoisonError::into_inner);
    *free -= 1;
    Ok(Slot(slots))
}

fn how_many(cores: usize, available_mib: u64) -> usize {
    let by_memory = usize::try_from(available_mib / MIB_PER_GUEST).unwrap_or(usize::MAX);
    (cores * 3 / 2).min(by_memory).max(1)
}

fn available_mib(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_the_scarcer_of_cores_and_memory() {
        for (cores, mib, want) in [(2, 23_000, 3), (8, 3_500, 3), (1, 99_000, 1), (4, 200, 1)] {
            assert_eq!(how_many(cores, mib), want, "{cores} cores, {mib} MiB");
        }
    }

    #[test]
    fn available_memory_is_read_from_meminfo() {
        let text = "MemTotal:       24684432 kB\nMemAvailable:   24269000 kB\n";
        assert_eq!(available_mib(text), Some(23_700));
        assert_eq!(available_mib("MemTotal: 1 kB\n"), None);
    }
}
