//! SCSI commands to a block device, by the kernel's pass-through `SG_IO`
//! (<scsi/sg.h>, version 3 of its interface).

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// `SG_DXFER_NONE`, `_TO_DEV`, `_FROM_DEV`.
const NO_DATA: i32 = -1;
const TO_DEVICE: i32 = -2;
const FROM_DEVICE: i32 = -3;
/// As much sense data as udev's tools ask for.
const SENSE_LENGTH: usize = 32;

mod raw {
    // SG_IO has no direction or size in its number.
    nix::ioctl_readwrite_bad!(sg_io, 0x2285, super::Header);
}

/// `struct sg_io_hdr`.
#[repr(C)]
struct Header {
    interface: i32,
    direction: i32,
    command_length: u8,
    sense_limit: u8,
    segments: u16,
    data_length: u32,
    data: *mut c_void,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut c_void,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_length: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration_ms: u32,
    info: u32,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The device's status byte, 0 for GOOD.
    pub status: u8,
    /// What the host adapter says of the transport, 0 for nothing.
    pub host_status: u16,
    /// What the driver adds, 0 for nothing.
    pub driver_status: u16,
    /// Sense data, where the device sent some.
    pub sense: Vec<u8>,
    /// Bytes of data that were sent.
    pub length: usize,
}

impl Reply {
    /// Whether the command succeeded without a remark.
    pub fn is_good(&self) -> bool {
        self.status == 0 && self.host_status == 0 && self.driver_status == 0
    }
}

/// Data of a command.
#[derive(Debug)]
pub enum Data<'a> {
    /// None.
    None,
    /// To the device.
    To(&'a [u8]),
    /// From the device.
    From(&'a mut [u8]),
}

/// Sends a command.
///
/// # Errors
/// What the kernel says: `ENOTTY` or `EINVAL` from devices that take no SCSI
/// commands, `EPERM` without privileges.
pub fn send(device: &File, command: &[u8], data: Data<'_>, timeout: Duration) -> io::Result<Reply> {
    // The kernel's interface has no const; data for the device it only reads.
    let (direction, start, length) = match data {
        Data::None => (NO_DATA, std::ptr::null_mut(), 0),
        Data::To(bytes) => (TO_DEVICE, bytes.as_ptr().cast_mut(), bytes.len()),
        Data::From(bytes) => (FROM_DEVICE, bytes.as_mut_ptr(), bytes.len()),
    };
    let mut sense = [0; SENSE_LENGTH];
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut header = Header {
        interface: i32::from(b'S'),
        direction,
        command_length: u8::try_from(command.len()).map_err(too_long)?,
        sense_limit: SENSE_LENGTH as u8,
        segments: 0,
        data_length: u32::try_from(length).map_err(too_long)?,
        data: start.cast(),
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX),
        flags: 0,
        pack_id: 0,
        user: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_length: 0,
        host_status: 0,
        driver_status: 0,
        residual: 0,
        duration_ms: 0,
        info: 0,
    };
    // SAFETY: the descriptor is open for the whole call; command, data and
    // sense are borrowed until after it and are as long as the header says; the
    // kernel only reads the command and, as `direction` says, what is sent to
    // the device, and writes no further than the two limits.
    unsafe { raw::sg_io(device.as_raw_fd(), &raw mut header) }?;
    let residual = usize::try_from(header.residual).unwrap_or(0);
    let sense_length = usize::from(header.sense_length).min(SENSE_LENGTH);
    Ok(Reply {
        status: header.status,
        host_status: header.host_status,
        driver_status: header.driver_status,
        sense: sense[..sense_length].to_vec(),
        length: length.saturating_sub(residual),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_as_long_as_the_kernels() {
        // On 64-bit machines, from <scsi/sg.h>.
        assert_eq!(size_of::<Header>(), 88);
        assert_eq!(std::mem::offset_of!(Header, data), 16);
        assert_eq!(std::mem::offset_of!(Header, status), 64);
        assert_eq!(std::mem::offset_of!(Header, info), 80);
    }

    #[test]
    fn a_file_takes_no_commands() {
        let file = tempfile::tempfile().unwrap();
        let second = Duration::from_secs(1);
        let mut answer = [0; 36];
        for data in [Data::None, Data::To(&[0; 36]), Data::From(&mut answer)] {
            assert!(send(&file, &[0x12, 0, 0, 0, 36, 0], data, second).is_err());
        }
    }
}
