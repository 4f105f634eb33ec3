//! Receives one multicast group of the kernel's routing messages as raw datagrams,
//! for messages that the rtnetlink crate does not support.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub struct RouteGroup {
    fd: AsyncFd<OwnedFd>,
}

impl RouteGroup {
    /// Subscribes to a group by its number, 1 to 32, from
    /// linux/include/uapi/linux/rtnetlink.h.
    ///
    /// # Errors
    /// If the kernel provides no netlink socket.
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
        // SAFETY: an OwnedFd is open and keeps the same descriptor until it is
        // dropped. Only the AsyncFd can drop this one.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self { fd })
    }

    /// Waits for the next datagram and returns its length. A datagram that is
    /// longer than the buffer is truncated. Datagrams are lost if the kernel's
    /// queue is full.
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
