//! Erases an NVMe disk with its own command: Format NVM with secure erase settings
//! (NVM Express base specification 2.0, sections 5.14 and 5.17).

use std::fs::File;
use std::io;
use std::time::Duration;

use landfall_media_formats::little_endian::u32_at;
use landfall_sys::nvme_ioctl::{self, AdminCommand};

const IDENTIFY: u8 = 0x06;
const IDENTIFY_NAMESPACE: u32 = 0;
const IDENTIFY_CONTROLLER: u32 = 1;
const IDENTIFY_ACTIVE_NAMESPACES: u32 = 2;
const IDENTIFY_LEN: usize = 4096;
const FORMAT_NVM: u8 = 0x80;
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(60);
/// A cryptographic erase takes seconds; overwriting every cell of a large disk
/// takes hours.
const FORMAT_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// How Format NVM erases the data (SES in dword 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecureErase {
    /// Overwrite or discard all user data.
    UserData = 1,
    /// Delete the key with which the data are encrypted.
    Cryptographic = 2,
}

/// The best erase method of this controller, according to its Identify data. `None`
/// if the controller cannot format.
pub fn method(controller: &[u8]) -> Option<SecureErase> {
    // OACS, bytes 256 and 257, bit 1; FNA, byte 524, bit 2.
    let can_format = controller.get(256)? & 1 << 1 != 0;
    let can_forget_keys = controller.get(524)? & 1 << 2 != 0;
    can_format.then_some(if can_forget_keys {
        SecureErase::Cryptographic
    } else {
        SecureErase::UserData
    })
}

/// Whether an erase of one namespace erases all namespaces: FNA, byte 524, bit 0 for
/// every format, bit 1 for every secure erase. True if the data are too short.
pub fn erases_all_namespaces(controller: &[u8]) -> bool {
    controller.get(524).is_none_or(|fna| fna & 0b11 != 0)
}

/// Counts the namespaces in a list, which ends with the first 0.
pub fn count_namespaces(list: &[u8]) -> usize {
    let numbers = list.chunks_exact(4);
    numbers.take_while(|number| *number != [0; 4]).count()
}

/// NN, bytes 516 to 519: the highest namespace number.
fn most_namespaces(controller: &[u8]) -> usize {
    u32_at(controller, 516).map_or(usize::MAX, |number| number as usize)
}

/// Dword 10 of a Format NVM command that keeps the current format. The format comes
/// from the Identify data of the namespace. `None` if the data are too short.
pub fn format_dword(namespace: &[u8], method: SecureErase) -> Option<u32> {
    // FLBAS: number of the format in bits 3..0 and 6..5; bit 4: metadata is in-line.
    // DPS: type of protection in bits 2..0; bit 3: position of the protection.
    let flbas = u32::from(*namespace.get(26)?);
    let dps = u32::from(*namespace.get(29)?);
    Some(
        flbas & 0x0f
            | (flbas >> 4 & 1) << 4
            | (dps & 0x07) << 5
            | (dps >> 3 & 1) << 8
            | (method as u32) << 9
            | (flbas >> 5 & 3) << 12,
    )
}

/// Erases the namespace of this device. Returns `Ok(None)` if its controller cannot
/// format. `erasable` is how many namespaces of the controller the caller may erase.
/// This number matters only if the controller erases all its namespaces together.
///
/// # Errors
/// If the controller fails, or if it would erase more than `erasable` namespaces.
pub fn erase(device: &File, erasable: usize) -> io::Result<Option<SecureErase>> {
    let number = nvme_ioctl::namespace(device)?;
    let controller = identify(device, 0, IDENTIFY_CONTROLLER)?;
    let Some(method) = method(&controller) else {
        return Ok(None);
    };
    if erases_all_namespaces(&controller) {
        let count = match identify(device, 0, IDENTIFY_ACTIVE_NAMESPACES) {
            Ok(list) => count_namespaces(&list),
            // NVMe 1.0 has no list of active namespaces. On such a controller every
            // namespace number up to NN is in use.
            Err(_) => most_namespaces(&controller),
        };
        if count > erasable {
            return Err(io::Error::other(format!(
                "the controller can only erase its {count} namespaces together, and no more than {erasable} of them may be erased"
            )));
        }
    }
    let namespace = identify(device, number, IDENTIFY_NAMESPACE)?;
    let dword_10 = format_dword(&namespace, method).ok_or(io::ErrorKind::InvalidData)?;
    let command = AdminCommand {
        opcode: FORMAT_NVM,
        namespace: number,
        dword_10,
        timeout: FORMAT_TIMEOUT,
    };
    nvme_ioctl::admin(device, &command, &mut [])?;
    Ok(Some(method))
}

fn identify(device: &File, namespace: u32, what: u32) -> io::Result<Vec<u8>> {
    let mut data = vec![0; IDENTIFY_LEN];
    let command = AdminCommand {
        opcode: IDENTIFY,
        namespace,
        dword_10: what,
        timeout: IDENTIFY_TIMEOUT,
    };
    nvme_ioctl::admin(device, &command, &mut data)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_decides_on_the_method() {
        for (oacs, fna, expected) in [
            (0x00, 0x00, None),
            (0x00, 0x04, None),
            (0x02, 0x00, Some(SecureErase::UserData)),
            (0x02, 0x03, Some(SecureErase::UserData)),
            (0x02, 0x04, Some(SecureErase::Cryptographic)),
            (0x1f, 0x07, Some(SecureErase::Cryptographic)),
            (0xfd, 0x04, None),
        ] {
            let mut controller = vec![0; IDENTIFY_LEN];
            controller[256] = oacs;
            controller[524] = fna;
            assert_eq!(method(&controller), expected, "OACS {oacs:x} FNA {fna:x}");
        }
        assert_eq!(method(&[0xff; 300]), None, "cut short");
    }

    #[test]
    fn the_controller_says_how_far_an_erase_goes() {
        for (fna, expected) in [(0, false), (4, false), (1, true), (2, true), (7, true)] {
            let mut controller = vec![0; IDENTIFY_LEN];
            controller[524] = fna;
            assert_eq!(erases_all_namespaces(&controller), expected, "FNA {fna:x}");
        }
        assert!(erases_all_namespaces(&[0; 300]), "cut short");
        let mut list = vec![0; IDENTIFY_LEN];
        assert_eq!(count_namespaces(&list), 0);
        (list[0], list[5]) = (1, 2);
        assert_eq!(count_namespaces(&list), 2);
        assert_eq!(count_namespaces(&[0xff; IDENTIFY_LEN]), 1024);
        let mut controller = vec![0; IDENTIFY_LEN];
        controller[517] = 1;
        assert_eq!(most_namespaces(&controller), 256);
        assert_eq!(most_namespaces(&[0; 300]), usize::MAX, "cut short");
    }

    #[test]
    fn the_format_stays_what_it_is() {
        for (flbas, dps, method, expected) in [
            (0x00, 0x00, SecureErase::UserData, 0x200),
            (0x01, 0x00, SecureErase::Cryptographic, 0x401),
            (0x13, 0x00, SecureErase::UserData, 0x213),
            (0x01, 0x09, SecureErase::UserData, 0x321),
            (0x42, 0x00, SecureErase::Cryptographic, 0x2402),
        ] {
            let mut namespace = vec![0; IDENTIFY_LEN];
            namespace[26] = flbas;
            namespace[29] = dps;
            assert_eq!(
                format_dword(&namespace, method),
                Some(expected),
                "FLBAS {flbas:x} DPS {dps:x}"
            );
        }
    }
}
