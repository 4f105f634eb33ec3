//! The socket of a DHCPv6 client.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd as _;

use dhcproto::v6::{CLIENT_PORT, SERVER_PORT};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn6, bind, setsockopt, socket, sockopt,
};
use tokio::net::UdpSocket;

use super::Settings;

/// The multicast address of all servers and relays on the link (RFC 8415, 7.1).
const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// The size of the receive buffer in bytes: more than fits into an Ethernet frame. A
/// longer answer is truncated, and the truncated option is ignored.
const LONGEST: usize = 4096;

/// Sends and receives on the link-local address of one interface.
pub(super) struct Socket {
    socket: UdpSocket,
    index: u32,
}

impl Socket {
    pub(super) fn open(settings: &Settings) -> io::Result<Socket> {
        let fd = socket(
            AddressFamily::Inet6,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            None,
        )?;
        // The previous client of this interface may not have closed its socket yet, so
        // both must be able to use the port.
        setsockopt(&fd, sockopt::ReuseAddr, &true)?;
        let local = SocketAddrV6::new(settings.link_local, CLIENT_PORT, 0, settings.index);
        bind(fd.as_raw_fd(), &SockaddrIn6::from(local))?;
        Ok(Socket {
            socket: UdpSocket::from_std(fd.into())?,
            index: settings.index,
        })
    }

    pub(super) async fn send(&self, message: &[u8]) -> io::Result<()> {
        let servers = SocketAddrV6::new(SERVERS, SERVER_PORT, 0, self.index);
        self.socket.send_to(message, servers).await.map(drop)
    }

    /// Receives the next payload into `buffer` and returns its sender.
    pub(super) async fn receive(&self, buffer: &mut Vec<u8>) -> io::Result<Ipv6Addr> {
        buffer.resize(LONGEST, 0);
        loop {
            if let (length, SocketAddr::V6(from)) = self.socket.recv_from(buffer).await? {
                buffer.truncate(length);
                return Ok(*from.ip());
            }
        }
    }
}
