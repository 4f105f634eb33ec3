//! Sets the machine's two clocks: the kernel's clock, and the hardware clock,
//! which also runs while the power is off.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::libc::c_int;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};

mod raw {
    nix::ioctl_write_ptr!(rtc_set_time, b'p', 0x0a, super::RtcTime);
}

/// `struct rtc_time` of <linux/rtc.h>. The last three fields are not used.
#[repr(C)]
pub struct RtcTime {
    second: c_int,
    minute: c_int,
    hour: c_int,
    day: c_int,
    month: c_int,
    year: c_int,
    unused: [c_int; 3],
}

/// A UTC date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CivilTime {
    /// The full year, such as 2026.
    pub year: u16,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day, 1 to 31.
    pub day: u8,
    /// The hour, 0 to 23.
    pub hour: u8,
    /// The minute, 0 to 59.
    pub minute: u8,
    /// The second, 0 to 59.
    pub second: u8,
}

/// Sets the kernel's clock.
///
/// # Errors
/// `EPERM` if the process lacks the privilege, `InvalidInput` for a time before 1970.
pub fn set_system_clock(time: SystemTime) -> io::Result<()> {
    let since: Duration = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from(since))?;
    Ok(())
}

/// Sets the hardware clock `device`, such as `/dev/rtc0`.
///
/// # Errors
/// If there is no such clock, or if it rejects the time.
pub fn set_hardware_clock(device: &Path, time: CivilTime) -> io::Result<()> {
    let file = File::open(device)?;
    let time = RtcTime {
        second: time.second.into(),
        minute: time.minute.into(),
        hour: time.hour.into(),
        day: time.day.into(),
        month: c_int::from(time.month) - 1,
        year: c_int::from(time.year) - 1900,
        unused: [0; 3],
    };
    // SAFETY: RTC_SET_TIME reads a struct rtc_time, whose layout RtcTime has, from
    // a pointer that is valid for the call.
    unsafe { raw::rtc_set_time(file.as_raw_fd(), &raw const time) }?;
    Ok(())
}
