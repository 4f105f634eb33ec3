//! One multicast group of the kernel's routing messages, as raw datagrams: for
//! messages that rtnetlink does not know.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A subscription to one group.
#[derive(Debug)]
pub struct RouteGroup {
    fd: AsyncFd<OwnedFd>,
}

impl RouteGroup {
    /// Subscribes to a group by its number, 1 to 32, in
    /// linux/include/uapi/linux/rtnetlink.h.
    ///
    /// # Errors
    /// If the kernel does not talk to us.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn open(group: u32) -> io::Result<Self> {
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkRoute,
        )?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 1 << (group - 1)))?;
        // SAFETY: an OwnedFd is open and stays the same descriptor until it is
        // dropped, and nothing but the AsyncFd can drop this one.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self { fd })
    }

    /// The length of the next datagram. What does not fit into the buffer is
    /// cut off; datagrams that did not fit into the kernel's queue are gone.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let received = self
                .fd
                .async_io(Interest::READABLE, |fd| {
                    Ok(recv(fd.as_raw_fd(), buffer, MsgFlags::empty())?)
                })
                .await;
            match received {
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {}
                received => return received,
            }
        }
    }
}
