//! Seconds since the kernel started.

use nix::time::{ClockId, clock_gettime};

/// Seconds since the kernel started, suspend included (CLOCK_BOOTTIME): the
/// same origin as the kernel's own log lines.
pub fn seconds_since_boot() -> f64 {
    // The clock exists since Linux 2.6.39; without it a line just says 0.
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map(|now| now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9)
        .unwrap_or(0.0)
}
