//! Network interfaces switched off, by `SIOCSIFFLAGS`: for init, which has no
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

/// Switches every interface off but the loopback. Returns what went wrong, one
/// line each.
pub fn take_all_down() -> Vec<String> {
    let interfaces = match if_nameindex() {
        Ok(interfaces) => interfaces,
        Err(error) => return vec![format!("the kernel's list of interfaces: {error}")],
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
    // SAFETY: ifreq is made of numbers only, for which zeros are values.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as c_char;
    }
    // SAFETY: the request is valid for the call, which fills in the flags.
    unsafe { raw::get_flags(any.as_raw_fd(), &raw mut request) }?;
    // SAFETY: the flags are what the kernel has just written.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    // Fits: the low bits of a short.
    request.ifr_ifru.ifru_flags = flags & !(libc::IFF_UP as c_short);
    // SAFETY: the request is valid for the call, which only reads it.
    unsafe { raw::set_flags(any.as_raw_fd(), &raw const request) }?;
    Ok(())
}
