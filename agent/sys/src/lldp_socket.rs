//! Receives the LLDP frames of several interfaces on one socket.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::libc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::packet_socket::{deaf_socket, listen};

/// The Ethernet type of LLDP (IEEE 802.1AB 8.3), in network byte order.
const ETH_P_LLDP: u16 = 0x88cc_u16.to_be();

/// Receives LLDP frames. The payload starts after the Ethernet header.
#[derive(Debug)]
pub struct LldpSocket {
    fd: AsyncFd<OwnedFd>,
}

/// Which frames the NICs let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// All frames, because LLDP uses three group addresses, and some drivers filter
    /// groups wrongly while a link comes up.
    Promiscuous,
    /// Frames to the group address of the nearest bridge (IEEE 802.1AB 7.1), which
    /// switches use. This filter is for a socket that stays open while other programs use
    /// the network, because it does not make the NIC pass on foreign frames.
    NearestBridge,
}

const NEAREST_BRIDGE: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];

impl LldpSocket {
    /// Opens a socket for the LLDP frames of these interfaces.
    ///
    /// # Errors
    /// If the kernel has no packet sockets, or if the process does not have
    /// `CAP_NET_RAW`. An interface that has disappeared is skipped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn open(interfaces: &[u32], filter: Filter) -> io::Result<Self> {
        let fd = deaf_socket()?;
        for &interface in interfaces {
            let Ok(interface) = i32::try_from(interface) else {
                continue;
            };
            // SAFETY: packet_mreq is plain integers, for which zero is a valid
            // value.
            let mut request: libc::packet_mreq = unsafe { mem::zeroed() };
            request.mr_ifindex = interface;
            match filter {
                Filter::Promiscuous => request.mr_type = libc::PACKET_MR_PROMISC as u16,
                Filter::NearestBridge => {
                    request.mr_type = libc::PACKET_MR_MULTICAST as u16;
                    request.mr_alen = NEAREST_BRIDGE.len() as u16;
                    request.mr_address[..NEAREST_BRIDGE.len()].copy_from_slice(&NEAREST_BRIDGE);
                }
            }
            // SAFETY: `request` outlives the call and has the given length. A failure
            // means that the interface has disappeared, so it is skipped.
            unsafe {
                libc::setsockopt(
                    fd.as_raw_fd(),
                    libc::SOL_PACKET,
                    libc::PACKET_ADD_MEMBERSHIP,
                    (&raw const request).cast(),
                    size_of_val(&request) as libc::socklen_t,
                );
            }
        }
        // SAFETY: sockaddr_ll is plain integers, for which zero is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ETH_P_LLDP;
        let fd = listen(fd, &address)?;
        Ok(Self { fd })
    }

    /// Waits for the next frame and stores its payload in `buffer`. Returns the index of
    /// the interface that received the frame, and the length of the payload in bytes.
    /// Truncates a payload that is longer than the buffer. Skips frames that this host
    /// sends.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<(u32, usize)> {
        loop {
            let (address, length) = self
                .fd
                .async_io(Interest::READABLE, |fd| receive_from(fd, buffer))
                .await?;
            if address.sll_pkttype != libc::PACKET_OUTGOING
                && let Ok(interface) = u32::try_from(address.sll_ifindex)
            {
                return Ok((interface, length));
            }
        }
    }
}

fn receive_from(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<(libc::sockaddr_ll, usize)> {
    // SAFETY: sockaddr_ll is plain integers, for which zero is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let mut size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: both pointers come from live values of the given lengths, and the
    // kernel does not write beyond them.
    let length = unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
            (&raw mut address).cast(),
            &raw mut size,
        )
    };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    Ok((address, length))
}
