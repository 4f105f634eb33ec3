//! Sends and receives IP and ARP packets on one interface, even without an address
//! on it.
//!
//! Once any interface has an address, a UDP socket cannot send from 0.0.0.0, because
//! the kernel fills in the address of the interface. A UDP socket also cannot receive
//! packets for an address that is not configured yet. DHCP needs both.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::libc;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socket};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The Ethernet types of IPv4 and ARP, in network byte order.
const ETH_P_IP: u16 = (libc::ETH_P_IP as u16).to_be();
const ETH_P_ARP: u16 = (libc::ETH_P_ARP as u16).to_be();

/// A packet socket on one interface, for UDP over IPv4 to one port, or for ARP.
/// Packets are without the Ethernet header, which the kernel adds and removes.
#[derive(Debug)]
pub struct PacketSocket {
    fd: AsyncFd<OwnedFd>,
    interface: i32,
    protocol: u16,
}

impl PacketSocket {
    /// Opens a socket for packets that arrive on `interface` for this UDP port.
    ///
    /// # Errors
    /// If the interface has disappeared, if the kernel has no packet sockets, or if the
    /// process lacks CAP_NET_RAW.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn open(interface: u32, port: u16) -> io::Result<Self> {
        Self::open_for(interface, ETH_P_IP, &udp_port_filter(port))
    }

    /// Opens a socket for all ARP packets on `interface`.
    ///
    /// # Errors
    /// As for [`PacketSocket::open`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn open_arp(interface: u32) -> io::Result<Self> {
        Self::open_for(interface, ETH_P_ARP, &[])
    }

    fn open_for(interface: u32, protocol: u16, filter: &[libc::sock_filter]) -> io::Result<Self> {
        let interface = i32::try_from(interface).map_err(io::Error::other)?;
        let fd = deaf_socket()?;
        if !filter.is_empty() {
            attach_filter(&fd, filter)?;
        }
        let fd = listen(fd, &link_address(interface, protocol, [0xff; 6]))?;
        Ok(Self {
            fd,
            interface,
            protocol,
        })
    }

    /// Sends a packet to every station on the link. Does not wait for space in the
    /// queue.
    ///
    /// # Errors
    /// If the kernel reports an error: the link is down, or `WouldBlock` if the
    /// queue is full.
    pub fn broadcast(&self, packet: &[u8]) -> io::Result<()> {
        let address = link_address(self.interface, self.protocol, [0xff; 6]);
        // SAFETY: both pointers come from live values of the given lengths.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_NOSIGNAL,
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits for the next packet and returns its length. A packet that is longer
    /// than the buffer is truncated.
    ///
    /// # Errors
    /// If the kernel reports an error: `NetworkDown` if the link went down.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fd
            .async_io(Interest::READABLE, |fd| {
                Ok(recv(fd.as_raw_fd(), buffer, MsgFlags::empty())?)
            })
            .await
    }
}

/// A packet socket without a protocol. It receives nothing until it is bound, so no
/// packet can arrive before a filter is attached.
pub(super) fn deaf_socket() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket(
        AddressFamily::Packet,
        SockType::Datagram,
        flags,
        None,
    )?)
}

/// Binds a packet socket, which then receives packets.
///
/// # Panics
/// Outside of a tokio runtime.
pub(super) fn listen(fd: OwnedFd, address: &libc::sockaddr_ll) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: `address` is a valid sockaddr_ll that outlives the call, and the
    // length is its size.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            std::ptr::from_ref(address).cast(),
            size_of_val(address) as libc::socklen_t,
        )
    };
    check(result)?;
    // SAFETY: an OwnedFd is open and keeps the same descriptor until it is dropped.
    // Only the AsyncFd can drop this one.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

fn link_address(interface: i32, protocol: u16, station: [u8; 6]) -> libc::sockaddr_ll {
    // SAFETY: sockaddr_ll is plain integers, for which zero is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = interface;
    address.sll_halen = 6;
    address.sll_addr[..6].copy_from_slice(&station);
    address
}

fn attach_filter(fd: &OwnedFd, filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(io::Error::other)?,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: `program` and the filter it points to outlive the call. The kernel
    // copies both and does not write to them.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    check(result)
}

/// A classic BPF program that accepts UDP packets to this port. It rejects all fragments
/// except the first one, because only that one contains the port. Without this filter the
/// kernel would also copy every packet of an image download to this socket.
fn udp_port_filter(port: u16) -> [libc::sock_filter; 9] {
    use libc::{
        BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX,
        BPF_MSH, BPF_RET,
    };
    let step = |code: u32, value: u32, if_true: u8, if_false: u8| libc::sock_filter {
        // The cast is lossless: all codes are below 256.
        code: code as u16,
        jt: if_true,
        jf: if_false,
        k: value,
    };
    [
        step(BPF_LD | BPF_B | BPF_ABS, 9, 0, 0),
        step(BPF_JMP | BPF_JEQ | BPF_K, libc::IPPROTO_UDP as u32, 0, 6),
        step(BPF_LD | BPF_H | BPF_ABS, 6, 0, 0),
        step(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 4, 0),
        step(BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0),
        step(BPF_LD | BPF_H | BPF_IND, 2, 0, 0),
        step(BPF_JMP | BPF_JEQ | BPF_K, port.into(), 0, 1),
        step(BPF_RET | BPF_K, u32::MAX, 0, 0),
        step(BPF_RET | BPF_K, 0, 0, 0),
    ]
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
