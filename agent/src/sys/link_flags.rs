//! Network interfaces switched off, by `SIOCSIFFLAGS`: for init, which has no
//! netlink.

use std::ffi::OsStr;
use std::io;
use std::mem;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use nix::libc::{self, c_char, c_short};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

mod raw {
    nix::ioctl_read_bad!(get_flags, nix::libc::SIOCGIFFLAGS, nix::libc::ifreq);
    nix::ioctl_write_ptr_bad!(set_flags, nix::libc::SIOCSIFFLAGS, nix::libc::ifreq);
}

/// Switches every interface of this directory (/sys/class/net) off but the
/// loopback. Returns what went wrong, one line each.
pub fn take_all_down(directory: &Path) -> Vec<String> {
    let names = match std::fs::read_dir(directory) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.file_name())),
        Err(error) => return vec![format!("{}: {error}", directory.display())],
    };
    names
        .filter(|name| name != "lo")
        .filter_map(|name| {
            let fault = take_down(&name).err()?;
            Some(format!("{}: {fault}", name.display()))
        })
        .collect()
}

fn take_down(interface: &OsStr) -> io::Result<()> {
    let any = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let name = interface.as_encoded_bytes();
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
