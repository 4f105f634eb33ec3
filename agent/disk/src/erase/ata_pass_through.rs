//! Sends ATA commands through the SCSI layer: ATA PASS-THROUGH (16) (SAT-4, 12.2).

use std::fs::File;
use std::io;
use std::time::Duration;

use landfall_sys::scsi_generic::{self, Data};

/// Length in bytes of the data of an ATA command. The commands used here transfer
/// one block or no data.
pub(super) const BLOCK: usize = 512;

/// Data of an ATA command.
#[derive(Debug)]
pub enum AtaData<'a> {
    None,
    /// To the disk.
    To(&'a [u8; BLOCK]),
    /// From the disk.
    From(&'a mut [u8; BLOCK]),
}

/// Executes an ATA command. If it has data, it transfers one sector.
///
/// # Errors
/// If the kernel cannot send the command, or the disk rejects it.
pub(super) fn ata(
    device: &File,
    command: u8,
    data: AtaData<'_>,
    timeout: Duration,
) -> io::Result<()> {
    let cdb = command_block(command, &data);
    let data = match data {
        AtaData::None => Data::None,
        AtaData::To(block) => Data::To(block),
        AtaData::From(block) => Data::From(block),
    };
    let reply = scsi_generic::send(device, &cdb, data, timeout)?;
    if reply.is_good() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the disk refuses ATA command 0x{command:02x} (SCSI status 0x{:02x}, host 0x{:x}, driver 0x{:x}, sense {:02x?})",
        reply.status, reply.host_status, reply.driver_status, reply.sense
    )))
}

fn command_block(command: u8, data: &AtaData<'_>) -> [u8; 16] {
    // SAT-4, table 127: byte 1 has the protocol in bits 4..1. Byte 2 has the direction,
    // and a flag that means that the sector count is the length in blocks.
    let (protocol, flags, count) = match data {
        AtaData::None => (3, 0, 0),
        AtaData::To(_) => (5, 0x06, 1),
        AtaData::From(_) => (4, 0x0e, 1),
    };
    let mut cdb = [0; 16];
    cdb[0] = 0x85;
    cdb[1] = protocol << 1;
    cdb[2] = flags;
    cdb[6] = count;
    cdb[14] = command;
    cdb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_says_which_way_its_block_goes() {
        for (data, expected) in [
            (AtaData::None, [0x85, 6, 0, 0, 0, 0, 0]),
            (AtaData::To(&[0; BLOCK]), [0x85, 10, 6, 0, 0, 0, 1]),
            (AtaData::From(&mut [0; BLOCK]), [0x85, 8, 0x0e, 0, 0, 0, 1]),
        ] {
            let cdb = command_block(0xec, &data);
            assert_eq!(cdb[..7], expected);
            assert_eq!(cdb[7..], [0, 0, 0, 0, 0, 0, 0, 0xec, 0]);
        }
    }

    #[test]
    fn a_file_is_no_disk() {
        let file = tempfile::tempfile().unwrap();
        let mut block = [0; BLOCK];
        let second = Duration::from_secs(1);
        assert!(ata(&file, 0xec, AtaData::From(&mut block), second).is_err());
    }
}
