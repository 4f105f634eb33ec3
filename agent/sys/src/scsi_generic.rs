//! Sends SCSI commands to a block device through the kernel's `SG_IO` (<scsi/sg.h>,
//! version 3 of the interface).

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// `SG_DXFER_NONE`, `_TO_DEV`, `_FROM_DEV`.
const NO_DATA: i32 = -1;
const TO_DEVICE: i32 = -2;
const FROM_DEVICE: i32 = -3;
/// The size of the buffer for sense data in bytes. udev's tools use the same size.
const SENSE_LENGTH: usize = 32;

mod raw {
    // The number of the request SG_IO does not encode a direction or a size.
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

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The device's status byte, 0 for GOOD.
    pub status: u8,
    /// The host adapter's transport status, 0 for no error.
    pub host_status: u16,
    /// The driver's status, 0 for no error.
    pub driver_status: u16,
    /// Sense data, empty if the device sent none.
    pub sense: Vec<u8>,
    /// The number of data bytes that were transferred.
    pub length: usize,
}

impl Reply {
    /// Whether the command succeeded without any error or warning.
    pub fn is_good(&self) -> bool {
        self.status == 0 && self.host_status == 0 && self.driver_status == 0
    }
}

/// The data of a command and their direction.
#[derive(Debug)]
pub enum Data<'a> {
    None,
    To(&'a [u8]),
    From(&'a mut [u8]),
}

/// Sends a command and waits for its result.
///
/// # Errors
/// If the kernel reports an error: `ENOTTY` or `EINVAL` for devices that accept no SCSI
/// commands, `EPERM` without privileges. `InvalidInput` if the command is longer than 255
/// bytes. A command that the device rejects is not an error here: see [`Reply::is_good`].
pub fn send(device: &File, command: &[u8], data: Data<'_>, timeout: Duration) -> io::Result<Reply> {
    // The kernel's structure has a mutable pointer for both directions. If the data go
    // to the device, the kernel only reads them, so the cast from a shared slice is
    // sound.
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
    // SAFETY: the descriptor is open for the whole call. Command, data and sense stay
    // borrowed until the call has returned, and have the lengths that the header gives.
    // The kernel only reads the command and the data that `direction` sends to the
    // device. It writes at most the given lengths of data and sense.
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
        // The sizes in <scsi/sg.h> on 64-bit machines.
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
