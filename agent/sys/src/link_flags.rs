//! Switches network interfaces off by `SIOCSIFFLAGS`, for init, which does not use
//! netlink.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::os::fd::AsRawFd as _;

use nix::libc::{self, c_char, c_short};
use nix::net::if_::if_nameindex;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

mod raw {
    nix::ioctl_read_bad!(get_flags, nix::libc::SIOCGIFFLAGS, nix::libc::ifreq);
    nix::ioctl_write_ptr_bad!(set_flags, nix::libc::SIOCSIFFLAGS, nix::libc::ifreq);
}

/// Switches off every interface except the loopback. Returns the errors, one line
/// each.
pub fn take_all_down() -> Vec<String> {
    let interfaces = match if_nameindex() {
        Ok(interfaces) => interfaces,
        Err(error) => {
            return vec![format!(
                "cannot read the kernel's list of interfaces: {error}"
            )];
        }
    };
    interfaces
        .iter()
        .filter(|interface| interface.name() != c"lo")
        .filter_map(|interface| {
            let fault = take_down(interface.name()).err()?;
            Some(format!("{}: {fault}", interface.name().to_string_lossy()))
        })
        .collect()
}

fn take_down(interface: &CStr) -> io::Result<()> {
    let any = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let name = interface.to_bytes();
    // SAFETY: ifreq consists of numbers only, for which zero is a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as c_char;
    }
    // SAFETY: the request is valid for the whole call, which fills in the flags.
    unsafe { raw::get_flags(any.as_raw_fd(), &raw mut request) }?;
    // SAFETY: the kernel has just written the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    // The cast is lossless, because IFF_UP is 1.
    request.ifr_ifru.ifru_flags = flags & !(libc::IFF_UP as c_short);
    // SAFETY: the request is valid for the whole call, which only reads it.
    unsafe { raw::set_flags(any.as_raw_fd(), &raw const request) }?;
    Ok(())
}
