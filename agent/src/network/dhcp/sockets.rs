//! The two sockets of a DHCP client: before there is an address, and after.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt,
};
use tokio::net::UdpSocket;

use super::datagram::{CLIENT_PORT, SERVER_PORT, broadcast_packet, payload, traffic_class};
use super::{Settings, message};
use crate::sys::packet_socket::PacketSocket;

/// Room for the longest message we ask for with its headers; what is longer
/// loses its end.
const BUFFER: usize = message::LONGEST + 100;

/// Speaks for an interface without an address.
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

    /// A full queue means that others are sending a great deal: the message is
    /// lost, as it could be on the wire, and sent again later.
    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        let packet = broadcast_packet(message, self.code_point);
        match self.socket.broadcast(&packet) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            result => result,
        }
    }

    /// The next payload that a server has sent to a client.
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

/// Speaks for an interface that has its address.
pub(super) struct Unicast {
    /// Sends from the address, and takes from the kernel what is sent to it,
    /// which would be answered with "port unreachable" otherwise.
    speaker: UdpSocket,
    /// Hears all of it, and a refusal besides: that one goes to everybody.
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
        // By name, since the kernel wants it so: an interface may share its
        // network with others, and the lease belongs to this one.
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

    /// The next payload that a server has sent to a client.
    pub(super) async fn receive(&self) -> io::Result<Vec<u8>> {
        self.listener.receive().await
    }
}
