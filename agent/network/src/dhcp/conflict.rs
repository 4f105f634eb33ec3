//! Detects whether another machine has an IPv4 address (RFC 5227).
//!
//! A server that has lost its leases offers addresses that are in use. The method of the
//! RFC takes seven seconds. This module uses NetworkManager's shorter method: two probes,
//! with a wait of 100 ms after each. A machine on the same link normally answers within
//! that time.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use landfall_network_plan::MacAddr;
use landfall_sys::packet_socket::PacketSocket;
use tokio::time::{Instant, timeout_at};

const PROBES: u32 = 2;
const PAUSE: Duration = Duration::from_millis(100);

/// Length and constant fields of an ARP packet for IPv4 over Ethernet (RFC 826).
const LENGTH: usize = 28;
const HEADER: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];

/// The NIC that sends the probes.
#[derive(Debug, Clone)]
pub struct ArpProber {
    pub index: u32,
    pub mac: MacAddr,
    /// The hardware addresses of this machine. Answers from them are ignored, because by
    /// default Linux answers on every link for all addresses of the machine.
    pub own: Vec<MacAddr>,
}

/// Probes the link. Returns the other machine that claims the address, or `None`.
///
/// # Errors
/// If the interface is down or gone.
pub async fn owner(prober: &ArpProber, address: Ipv4Addr) -> io::Result<Option<MacAddr>> {
    let socket = PacketSocket::open_arp(prober.index)?;
    let probe = probe(prober.mac, address);
    for _ in 0..PROBES {
        match socket.broadcast(&probe) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let until = Instant::now() + PAUSE;
        let mut buffer = [0; LENGTH];
        while let Ok(received) = timeout_at(until, socket.receive(&mut buffer)).await {
            let packet = &buffer[..received?.min(LENGTH)];
            let owner = claimant(packet, address);
            if let Some(owner) = owner.filter(|mac| !prober.own.contains(mac)) {
                return Ok(Some(owner));
            }
        }
    }
    Ok(None)
}

/// A probe that changes no ARP cache, because its sender address is zero.
fn probe(mac: MacAddr, address: Ipv4Addr) -> Vec<u8> {
    let unspecified = [0; 4];
    let mut packet = [&HEADER[..], &REQUEST, &mac.0, &unspecified].concat();
    packet.extend([0; 6]);
    packet.extend(address.octets());
    packet
}

/// The machine that uses the address, or that probes for it at the same time.
pub fn claimant(packet: &[u8], address: Ipv4Addr) -> Option<MacAddr> {
    let packet: &[u8; LENGTH] = packet.first_chunk()?;
    let field = |at: usize, length: usize| &packet[at..at + length];
    let kind = field(6, 2);
    if *field(0, 6) != HEADER || (kind != REQUEST && kind != REPLY) {
        return None;
    }
    let mac = MacAddr(*packet[8..].first_chunk()?);
    let sender = *field(14, 4) == address.octets();
    let asks = kind == REQUEST && *field(14, 4) == [0; 4] && *field(24, 4) == address.octets();
    (sender || asks).then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);

    fn packet(kind: [u8; 2], mac: MacAddr, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
        let mut packet = [&HEADER[..], &kind, &mac.0, &sender, &[0; 6], &target].concat();
        packet.extend([0; 18]);
        packet
    }

    #[test]
    fn an_answer_or_a_simultaneous_probe_is_a_conflict() {
        let his = ADDRESS.octets();
        let else_ = [192, 0, 2, 1];
        for (packet, found) in [
            (packet(REPLY, OTHER, his, else_), Some(OTHER)),
            (packet(REQUEST, OTHER, his, else_), Some(OTHER)),
            (probe(OTHER, ADDRESS), Some(OTHER)),
            // A machine that looks for the owner is not the owner.
            (packet(REQUEST, OTHER, else_, his), None),
            (packet(REPLY, OTHER, else_, his), None),
            (packet([0, 3], OTHER, his, else_), None),
            (packet(REPLY, OTHER, his, else_)[..27].to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(claimant(&packet, ADDRESS), found, "{packet:?}");
        }
    }
}
