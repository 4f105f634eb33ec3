//! A driver's private flags: named switches that only this driver has. Uses the
//! requests of <linux/ethtool.h>, as `ethtool --show-priv-flags` does.

use std::io;

use super::ethtool::ask;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GPFLAGS: u32 = 0x27;
const ETHTOOL_SPFLAGS: u32 = 0x28;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
/// `ETH_SS_PRIV_FLAGS`.
const PRIVATE_FLAGS: u32 = 2;
/// `ETH_GSTRING_LEN`.
const NAME_LENGTH: usize = 32;
/// The flags are the bits of a `u32`.
const FLAGS_LIMIT: usize = 32;

/// `struct ethtool_sset_info` with space for one count.
#[repr(C)]
struct StringSetInfo {
    command: u32,
    reserved: u32,
    mask: u64,
    counts: [u32; 1],
}

/// `struct ethtool_gstrings` with its data.
#[repr(C)]
struct Strings {
    command: u32,
    set: u32,
    count: u32,
    data: [u8; NAME_LENGTH * FLAGS_LIMIT],
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Sets the flag to `on`. Returns whether this changed it.
///
/// # Errors
/// `EOPNOTSUPP` if the driver has no private flags, `NotFound` if it has no flag of
/// this name, otherwise the driver's error.
pub fn set_private_flag(interface: &str, flag: &str, on: bool) -> io::Result<bool> {
    let names = names(interface)?;
    let bit = names
        .iter()
        .position(|name| name == flag)
        .ok_or(io::ErrorKind::NotFound)?;
    let mut request = Value {
        command: ETHTOOL_GPFLAGS,
        data: 0,
    };
    // SAFETY: this command takes a `struct ethtool_value`.
    unsafe { ask(interface, &mut request) }?;
    let wanted = if on {
        request.data | 1 << bit
    } else {
        request.data & !(1 << bit)
    };
    if wanted == request.data {
        return Ok(false);
    }
    request = Value {
        command: ETHTOOL_SPFLAGS,
        data: wanted,
    };
    // SAFETY: as above.
    unsafe { ask(interface, &mut request) }?;
    Ok(true)
}

/// The names of the flags. The index of a name is its bit number.
fn names(interface: &str) -> io::Result<Vec<String>> {
    let mut info = StringSetInfo {
        command: ETHTOOL_GSSET_INFO,
        reserved: 0,
        mask: 1 << PRIVATE_FLAGS,
        counts: [0],
    };
    // SAFETY: the mask has one bit, so the kernel writes one count at most.
    unsafe { ask(interface, &mut info) }?;
    let count = if info.mask == 0 { 0 } else { info.counts[0] };
    if count as usize > FLAGS_LIMIT {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let mut strings = Strings {
        command: ETHTOOL_GSTRINGS,
        set: PRIVATE_FLAGS,
        count,
        data: [0; NAME_LENGTH * FLAGS_LIMIT],
    };
    if count > 0 {
        // SAFETY: the kernel writes as many names as the driver has. The previous
        // request returned this number, and it fits. It does not change while a
        // driver is bound.
        unsafe { ask(interface, &mut strings) }?;
    }
    Ok(strings
        .data
        .chunks(NAME_LENGTH)
        .take(count as usize)
        .map(|name| {
            let end = name.iter().position(|&byte| byte == 0);
            String::from_utf8_lossy(&name[..end.unwrap_or(NAME_LENGTH)]).into_owned()
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_size() {
        assert_eq!(std::mem::offset_of!(StringSetInfo, counts), 16);
        assert_eq!(std::mem::offset_of!(Strings, data), 12);
    }

    #[test]
    fn an_unknown_flag_is_an_error() {
        for name in ["lo", "nosuchnic0"] {
            assert!(set_private_flag(name, "disable-fw-lldp", true).is_err());
        }
    }
}
