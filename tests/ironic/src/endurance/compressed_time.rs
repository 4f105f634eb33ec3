//! The length of the compressed day. Ironic's time limit for heartbeats is 300 times
//! shorter than usual, so the agent sends as many heartbeats as in a whole day.

use std::time::Duration;

/// In seconds: Ironic's default of `[api]ramdisk_heartbeat_timeout`.
pub const USUAL_TIMEOUT: u32 = 300;
/// In seconds, for this day. The agent sends a heartbeat after 0.3 to 0.6 of it.
pub const TIMEOUT: u32 = 1;
/// How long the day lasts: 4.8 minutes.
pub const DAY: Duration = Duration::from_secs((86_400 * TIMEOUT / USUAL_TIMEOUT) as u64);
