//! The time since the kernel started.

use nix::time::{ClockId, clock_gettime};

/// Seconds since the kernel started, including suspend (CLOCK_BOOTTIME). The
/// kernel's own log lines have the same origin.
pub fn seconds_since_boot() -> f64 {
    // The clock exists since Linux 2.6.39. On an older kernel, log lines show 0.
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map(|now| now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9)
        .unwrap_or(0.0)
}
