//! Sends commands to an NVMe controller.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

mod raw {
    use super::PassThrough;
    // <linux/nvme_ioctl.h>
    nix::ioctl_none!(nvme_ioctl_id, b'N', 0x40);
    nix::ioctl_readwrite!(nvme_ioctl_admin_cmd, b'N', 0x41, PassThrough);
}

/// `struct nvme_passthru_cmd`
#[repr(C)]
#[derive(Debug, Default)]
pub struct PassThrough {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    dwords_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_length: u32,
    data_length: u32,
    dwords_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// An admin command that transfers no data, or data from the controller to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdminCommand {
    pub opcode: u8,
    /// The namespace that the command is for, or 0.
    pub namespace: u32,
    /// Command dword 10.
    pub dword_10: u32,
    /// How long the kernel waits for the controller.
    pub timeout: Duration,
}

/// The ID (NSID) of the namespace that this block device represents.
///
/// # Errors
/// If the device is not an NVMe namespace.
pub fn namespace(device: &File) -> io::Result<u32> {
    // SAFETY: the descriptor is open for the whole call. NVME_IOCTL_ID takes no
    // argument and returns the number.
    let number = unsafe { raw::nvme_ioctl_id(device.as_raw_fd()) }?;
    u32::try_from(number).map_err(io::Error::other)
}

/// Executes a command. Stores the data from the controller in `data`, which is empty for
/// a command without data.
///
/// # Errors
/// If the kernel reports an error, or the controller rejects the command. In the second
/// case the text of the error contains the controller's status.
pub fn admin(device: &File, command: &AdminCommand, data: &mut [u8]) -> io::Result<()> {
    let mut request = PassThrough {
        opcode: command.opcode,
        namespace: command.namespace,
        address: data.as_mut_ptr().expose_provenance() as u64,
        data_length: u32::try_from(data.len()).map_err(io::Error::other)?,
        dwords_10_15: [command.dword_10, 0, 0, 0, 0, 0],
        timeout_ms: u32::try_from(command.timeout.as_millis()).unwrap_or(u32::MAX),
        ..PassThrough::default()
    };
    // SAFETY: the descriptor is open for the whole call. `request` has the layout
    // of struct nvme_passthru_cmd. Its address and length are those of a slice that
    // is borrowed mutably until after the call.
    let status = unsafe { raw::nvme_ioctl_admin_cmd(device.as_raw_fd(), &raw mut request) }?;
    match status {
        0 => Ok(()),
        status => Err(io::Error::other(format!(
            "the controller refuses command 0x{:02x} with status 0x{status:x}",
            command.opcode
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_the_kernels() {
        assert_eq!(size_of::<PassThrough>(), 72);
        assert_eq!(std::mem::offset_of!(PassThrough, address), 24);
        assert_eq!(std::mem::offset_of!(PassThrough, dwords_10_15), 40);
    }

    #[test]
    fn a_file_is_no_controller() {
        let file = tempfile::tempfile().unwrap();
        assert!(namespace(&file).is_err());
        let command = AdminCommand {
            opcode: 6,
            namespace: 0,
            dword_10: 1,
            timeout: Duration::from_secs(1),
        };
        assert!(admin(&file, &command, &mut [0; 4096]).is_err());
    }
}
