//! ATA commands through the SCSI layer (`SG_IO`, ATA PASS-THROUGH (16)).

use std::ffi::{c_int, c_uchar, c_uint, c_ushort, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

mod raw {
    use super::Header;
    // <scsi/sg.h>: the number is from before numbers told size and direction.
    nix::ioctl_readwrite_bad!(sg_io, 0x2285, Header);
}

/// `struct sg_io_hdr`
#[repr(C)]
struct Header {
    interface_id: c_int,
    direction: c_int,
    command_length: c_uchar,
    sense_limit: c_uchar,
    iovec_count: c_ushort,
    data_length: c_uint,
    data: *mut c_void,
    command: *mut c_uchar,
    sense: *mut c_uchar,
    timeout_ms: c_uint,
    flags: c_uint,
    pack_id: c_int,
    user: *mut c_void,
    status: c_uchar,
    masked_status: c_uchar,
    message_status: c_uchar,
    sense_length: c_uchar,
    host_status: c_ushort,
    driver_status: c_ushort,
    residual: c_int,
    duration: c_uint,
    info: c_uint,
}

/// `SG_DXFER_NONE`, `_TO_DEV`, `_FROM_DEV`.
const NO_DATA: c_int = -1;
const TO_DEVICE: c_int = -2;
const FROM_DEVICE: c_int = -3;

/// The one block that ATA commands with data take or give here.
pub const BLOCK: usize = 512;

/// Data of an ATA command.
#[derive(Debug)]
pub enum AtaData<'a> {
    /// None.
    None,
    /// To the disk.
    To(&'a [u8; BLOCK]),
    /// From the disk.
    From(&'a mut [u8; BLOCK]),
}

/// Executes an ATA command with a count of one sector where it has data.
///
/// # Errors
/// What the kernel says, or that the disk refuses.
pub fn ata(device: &File, command: u8, data: AtaData<'_>, timeout: Duration) -> io::Result<()> {
    // A copy, since the kernel's interface has no const.
    let mut block = [0; BLOCK];
    // SAT-4, table 127: protocol in bits 4..1; byte 2 says that the length is
    // in the sector count, in blocks, and in which direction.
    let (direction, protocol, flags, count) = match &data {
        AtaData::None => (NO_DATA, 3, 0, 0),
        AtaData::To(bytes) => {
            block = **bytes;
            (TO_DEVICE, 5, 0x06, 1)
        }
        AtaData::From(_) => (FROM_DEVICE, 4, 0x0e, 1),
    };
    let mut cdb = [0u8; 16];
    cdb[0] = 0x85;
    cdb[1] = protocol << 1;
    cdb[2] = flags;
    cdb[6] = count;
    cdb[14] = command;
    let mut sense = [0u8; 32];
    let mut header = Header {
        interface_id: c_int::from(b'S'),
        direction,
        command_length: 16,
        sense_limit: 32,
        iovec_count: 0,
        data_length: if count == 0 { 0 } else { BLOCK as c_uint },
        data: block.as_mut_ptr().cast(),
        command: cdb.as_mut_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: c_uint::try_from(timeout.as_millis()).unwrap_or(c_uint::MAX),
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
        duration: 0,
        info: 0,
    };
    // SAFETY: the descriptor is open for the whole call; `header` has the layout
    // of struct sg_io_hdr, and its pointers are to arrays of the given lengths
    // that outlive the call.
    unsafe { raw::sg_io(device.as_raw_fd(), &raw mut header) }?;
    if header.status != 0 || header.host_status != 0 || header.driver_status & 0x0f != 0 {
        return Err(io::Error::other(format!(
            "the disk refuses ATA command 0x{command:02x} (SCSI status 0x{:02x}, host 0x{:x}, driver 0x{:x}, sense {:02x?})",
            header.status,
            header.host_status,
            header.driver_status,
            &sense[..usize::from(header.sense_length).min(sense.len())]
        )));
    }
    if let AtaData::From(bytes) = data {
        *bytes = block;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_the_kernels() {
        assert_eq!(size_of::<Header>(), 88);
        assert_eq!(std::mem::offset_of!(Header, data), 16);
        assert_eq!(std::mem::offset_of!(Header, status), 64);
    }

    #[test]
    fn a_file_is_no_disk() {
        let file = tempfile::tempfile().unwrap();
        let mut block = [0; BLOCK];
        let answer = ata(
            &file,
            0xec,
            AtaData::From(&mut block),
            Duration::from_secs(1),
        );
        assert!(answer.is_err());
    }
}
