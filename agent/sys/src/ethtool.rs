//! Reads data that only a NIC's driver has, the permanent address and the abilities of
//! the port, and sets the speed of the link. Uses the requests of <linux/ethtool.h>
//! through `SIOCETHTOOL`.

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

const ETHTOOL_GPERMADDR: u32 = 0x20;
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;
const ETHTOOL_SLINKSETTINGS: u32 = 0x4d;
/// `MAX_ADDR_LEN` in linux/include/linux/netdevice.h.
const ADDRESS_LIMIT: usize = 32;
/// The largest number of words in a mask: the request holds the number as a
/// signed byte.
const MASK_WORDS_LIMIT: usize = 127;
/// `SPEED_UNKNOWN`: the driver does not know the speed.
const SPEED_UNKNOWN: u32 = u32::MAX;

mod raw {
    nix::ioctl_readwrite_bad!(siocethtool, nix::libc::SIOCETHTOOL, nix::libc::ifreq);
}

/// `struct ethtool_perm_addr` with its data.
#[repr(C)]
struct PermanentAddress {
    command: u32,
    size: u32,
    data: [u8; ADDRESS_LIMIT],
}

/// `struct ethtool_link_settings` with space for the three masks at its end.
#[repr(C)]
struct LinkSettingsRequest {
    command: u32,
    speed: u32,
    duplex: u8,
    port_bytes: [u8; 2],
    autoneg: u8,
    crossover_bytes: [u8; 3],
    mask_words: i8,
    transceiver_bytes: [u8; 4],
    reserved: [u32; 7],
    masks: [u32; 3 * MASK_WORDS_LIMIT],
}

/// The current state and the abilities of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSettings {
    /// In Mbit/s; `None` if the driver does not know it, for example because the link is
    /// down.
    pub speed: Option<u32>,
    /// The supported modes: bit numbers of `enum ethtool_link_mode_bit_indices`.
    pub supported: Vec<usize>,
}

/// The factory address of the NIC, whatever address the interface has now. `None`
/// if the driver returns only zeros, which is not an address.
///
/// # Errors
/// If the driver reports an error: `EOPNOTSUPP` if it does not support the
/// request.
pub fn permanent_address(interface: &str) -> io::Result<Option<Vec<u8>>> {
    let mut request = PermanentAddress {
        command: ETHTOOL_GPERMADDR,
        size: ADDRESS_LIMIT as u32,
        data: [0; ADDRESS_LIMIT],
    };
    // SAFETY: `size` tells the kernel how much room `data` has.
    unsafe { ask(interface, &mut request) }?;
    let size = (request.size as usize).min(ADDRESS_LIMIT);
    let address = &request.data[..size];
    Ok(address
        .iter()
        .any(|&byte| byte != 0)
        .then(|| address.to_vec()))
}

/// The link's speed and the modes that the port supports.
///
/// # Errors
/// If the driver reports an error: `EOPNOTSUPP` if it does not support the
/// request.
pub fn link_settings(interface: &str) -> io::Result<LinkSettings> {
    let (request, words) = current(interface)?;
    let speed = request.speed;
    Ok(LinkSettings {
        speed: (speed != 0 && speed != SPEED_UNKNOWN).then_some(speed),
        supported: (0..words * 32)
            .filter(|bit| request.masks[bit / 32] & (1 << (bit % 32)) != 0)
            .collect(),
    })
}

/// Switches autonegotiation on or off. If `speed` is given (in Mbit/s), also sets
/// this speed with full duplex.
///
/// # Errors
/// If the driver reports an error: `EOPNOTSUPP` or `EINVAL` if it does not
/// support the setting.
pub fn set_link_settings(interface: &str, autoneg: bool, speed: Option<u32>) -> io::Result<()> {
    /// `DUPLEX_FULL`.
    const FULL: u8 = 1;
    let (mut request, words) = current(interface)?;
    request.command = ETHTOOL_SLINKSETTINGS;
    request.autoneg = autoneg.into();
    if let Some(speed) = speed {
        request.speed = speed;
        request.duplex = FULL;
    }
    if autoneg {
        // Advertise everything that the port supports.
        let (supported, others) = request.masks.split_at_mut(words);
        others[..words].copy_from_slice(supported);
    }
    // SAFETY: the structure is as the kernel filled it in for this interface.
    unsafe { ask(interface, &mut request) }
}

/// The driver's current settings, and the number of words in each mask.
fn current(interface: &str) -> io::Result<(LinkSettingsRequest, usize)> {
    let mut request = LinkSettingsRequest {
        command: ETHTOOL_GLINKSETTINGS,
        speed: 0,
        duplex: 0,
        port_bytes: [0; 2],
        autoneg: 0,
        crossover_bytes: [0; 3],
        mask_words: 0,
        transceiver_bytes: [0; 4],
        reserved: [0; 7],
        masks: [0; 3 * MASK_WORDS_LIMIT],
    };
    // The first answer only contains the number of words in a mask, negated.
    // SAFETY: with `mask_words` 0 the kernel only writes the fixed part.
    unsafe { ask(interface, &mut request) }?;
    let words = request.mask_words.checked_neg().unwrap_or(0);
    request.command = ETHTOOL_GLINKSETTINGS;
    request.mask_words = words;
    // SAFETY: the kernel writes three masks of `mask_words` words or rejects the
    // count. `masks` has space for the largest possible count.
    unsafe { ask(interface, &mut request) }?;
    Ok((request, usize::try_from(words).unwrap_or(0)))
}

/// Sends one request to the driver of the interface.
///
/// # Safety
/// `request` must be the structure that its command is defined for.
pub(super) unsafe fn ask<T>(interface: &str, request: &mut T) -> io::Result<()> {
    let name = interface.as_bytes();
    // SAFETY: ifreq is a C structure of numbers and pointers; zero is valid.
    let mut ifreq: libc::ifreq = unsafe { mem::zeroed() };
    // Reject a longer name: the kernel requires a NUL within the field.
    if name.len() >= ifreq.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, &from) in ifreq.ifr_name.iter_mut().zip(name) {
        *to = from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_data = std::ptr::from_mut(request).cast();
    // Any socket works. This is the only address family that every kernel has.
    let socket = socket(
        AddressFamily::Unix,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: the descriptor is open, `ifreq` is initialised and points to
    // `request`, which by contract matches its command.
    unsafe { raw::siocethtool(socket.as_raw_fd(), &raw mut ifreq) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn structures_have_the_kernels_size() {
        assert_eq!(mem::size_of::<PermanentAddress>(), 8 + 32);
        assert_eq!(mem::offset_of!(LinkSettingsRequest, masks), 48);
        assert_eq!(mem::offset_of!(LinkSettingsRequest, mask_words), 15);
    }

    #[test]
    fn permanent_address_is_the_one_of_an_untouched_nic() {
        for name in ["eth0", "ens3", "enp0s3"] {
            let directory = format!("/sys/class/net/{name}");
            let Ok(assigned) = fs::read_to_string(format!("{directory}/addr_assign_type")) else {
                continue;
            };
            let Ok(Some(address)) = permanent_address(name) else {
                continue;
            };
            let text: Vec<String> = address.iter().map(|byte| format!("{byte:02x}")).collect();
            let current = fs::read_to_string(format!("{directory}/address")).unwrap();
            if assigned.trim() == "0" {
                assert_eq!(text.join(":"), current.trim());
            }
        }
    }

    #[test]
    fn no_such_interface_is_an_error() {
        for name in ["", "nosuchnic0", "a-name-longer-than-fifteen", "eth\u{0}0"] {
            assert!(permanent_address(name).is_err(), "{name:?}");
            assert!(link_settings(name).is_err(), "{name:?}");
        }
        let error = link_settings("nosuchnic0").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn loopback_has_no_link_to_speak_of() {
        if let Ok(settings) = link_settings("lo") {
            assert_eq!(settings.supported, [0usize; 0]);
        }
    }
}
