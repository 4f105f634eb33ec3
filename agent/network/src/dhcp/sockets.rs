//! The two sockets of a DHCP client: one for the time before the interface has an
//! address, one for the time after.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd as _;

use landfall_sys::packet_socket::PacketSocket;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt,
};
use tokio::net::UdpSocket;

use super::datagram::{CLIENT_PORT, SERVER_PORT, broadcast_packet, payload, traffic_class};
use super::{Settings, message};

/// The size of the receive buffer in bytes: room for the longest announced message with
/// its headers. Longer packets are truncated.
const BUFFER: usize = message::LONGEST + 100;

/// Sends and receives for an interface without an address.
pub(super) struct Broadcast {
    socket: PacketSocket,
    code_point: u8,
}

impl Broadcast {
    pub(super) fn open(settings: &Settings) -> io::Result<Broadcast> {
        let socket = PacketSocket::open(settings.index, CLIENT_PORT)?;
        Ok(Broadcast {
            socket,
            code_point: settings.code_point,
        })
    }

    /// If the queue is full, the message counts as lost on the wire. The client sends it
    /// again later.
    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        let packet = broadcast_packet(message, self.code_point);
        match self.socket.broadcast(&packet) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            result => result,
        }
    }

    /// Returns the next payload from a server to a client.
    pub(super) async fn receive(&self) -> io::Result<Vec<u8>> {
        let mut buffer = [0; BUFFER];
        loop {
            let length = self.socket.receive(&mut buffer).await?;
            if let Some(payload) = payload(&buffer[..length]) {
                return Ok(payload.to_vec());
            }
        }
    }
}

/// Sends and receives for an interface that has its address.
pub(super) struct Unicast {
    /// Sends from the leased address. While this socket is open, the kernel does not
    /// answer the server's messages to the address with "port unreachable".
    speaker: UdpSocket,
    /// Receives all answers, including a refusal, which the server broadcasts.
    listener: Broadcast,
}

impl Unicast {
    pub(super) fn open(settings: &Settings, address: Ipv4Addr) -> io::Result<Unicast> {
        let fd = socket(
            AddressFamily::Inet,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            None,
        )?;
        setsockopt(&fd, sockopt::ReuseAddr, &true)?;
        setsockopt(&fd, sockopt::Broadcast, &true)?;
        // Binds to the device by name, as the kernel requires. Several interfaces may
        // be on the same network, and the lease belongs to this interface.
        setsockopt(&fd, sockopt::BindToDevice, &settings.name.clone().into())?;
        let local = SockaddrIn::from(SocketAddrV4::new(address, CLIENT_PORT));
        bind(fd.as_raw_fd(), &local)?;
        let speaker = UdpSocket::from_std(fd.into())?;
        speaker.set_tos_v4(traffic_class(settings.code_point).into())?;
        Ok(Unicast {
            speaker,
            listener: Broadcast::open(settings)?,
        })
    }

    pub(super) async fn send(&self, message: &[u8], server: Ipv4Addr) -> io::Result<()> {
        let server = SocketAddrV4::new(server, SERVER_PORT);
        self.speaker.send_to(message, server).await.map(drop)
    }

    /// Returns the next payload from a server to a client.
    pub(super) async fn receive(&self) -> io::Result<Vec<u8>> {
        self.listener.receive().await
    }
}
