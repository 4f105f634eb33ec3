//! Converts between DHCP payloads and IPv4 packets, for the time before the
//! interface has an address.

use std::net::Ipv4Addr;

pub(super) const CLIENT_PORT: u16 = 68;
pub(super) const SERVER_PORT: u16 = 67;

const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;

/// The header octet that holds a differentiated services code point (RFC 2474, 3).
pub(super) fn traffic_class(code_point: u8) -> u8 {
    code_point << 2
}

/// A packet from 0.0.0.0 to 255.255.255.255 with this payload, which must be
/// shorter than 64 KiB.
pub(super) fn broadcast_packet(payload: &[u8], code_point: u8) -> Vec<u8> {
    let udp_length = UDP_HEADER + payload.len();
    let length = |n: usize| u16::try_from(n).unwrap_or(u16::MAX).to_be_bytes();
    let (source, destination) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);

    let mut packet = Vec::with_capacity(IP_HEADER + udp_length);
    // Version 4, header length of five words.
    packet.extend([0x45, traffic_class(code_point)]);
    packet.extend(length(IP_HEADER + udp_length));
    // Identification, no fragment offset, time to live, protocol, checksum.
    packet.extend([0, 0, 0, 0, 64, UDP, 0, 0]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    let checksum = !ones_sum(&packet, 0);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());

    packet.extend(CLIENT_PORT.to_be_bytes());
    packet.extend(SERVER_PORT.to_be_bytes());
    packet.extend(length(udp_length));
    packet.extend([0, 0]);
    packet.extend(payload);
    let mut pseudo_header = Vec::with_capacity(12);
    pseudo_header.extend(source.octets());
    pseudo_header.extend(destination.octets());
    pseudo_header.extend([0, UDP]);
    pseudo_header.extend(length(udp_length));
    let sum = ones_sum(&packet[IP_HEADER..], ones_sum(&pseudo_header, 0));
    // A checksum of zero would mean "no checksum" (RFC 768).
    let checksum = if sum == u16::MAX { sum } else { !sum };
    packet[IP_HEADER + 6..IP_HEADER + 8].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// The payload of a packet from a DHCP server to a client; `None` for any other packet.
/// The UDP checksum is ignored, because it is not computed for packets between virtual
/// machines on one host.
pub fn payload(packet: &[u8]) -> Option<&[u8]> {
    let first = *packet.first()?;
    let header_length = usize::from(first & 0x0f) * 4;
    let header = packet
        .get(..header_length)
        .filter(|h| h.len() >= IP_HEADER)?;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    if first >> 4 != 4 || header[9] != UDP || fragment != 0 || ones_sum(header, 0) != u16::MAX {
        return None;
    }
    // The link may have appended padding to the packet.
    let udp = packet.get(header_length..total)?;
    let field = |at: usize| Some(u16::from_be_bytes([*udp.get(at)?, *udp.get(at + 1)?]));
    if field(0)? != SERVER_PORT || field(2)? != CLIENT_PORT {
        return None;
    }
    udp.get(UDP_HEADER..usize::from(field(4)?))
}

/// The ones' complement sum of internet checksums (RFC 1071).
fn ones_sum(bytes: &[u8], start: u16) -> u16 {
    let mut sum = u32::from(start);
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // The cast is lossless: the loop leaves a sum of 16 bits.
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with the ports of a server's answer, and this payload.
    fn answer(payload: &[u8]) -> Vec<u8> {
        let mut packet = broadcast_packet(payload, 0);
        packet[20..24].copy_from_slice(&[0, 67, 0, 68]);
        packet
    }

    #[test]
    fn checksums_are_those_of_the_rfcs() {
        let urgent = broadcast_packet(b"abc", 48);
        assert_eq!((urgent[1], ones_sum(&urgent[..20], 0)), (0xc0, u16::MAX));
        let packet = broadcast_packet(b"abc", 0);
        assert_eq!(ones_sum(&packet[..20], 0), u16::MAX);
        // The checksum of this header, computed by hand: the complement of 4500 + 001f +
        // 4011 + ffff + ffff.
        assert_eq!(packet[10..12], [0x7a, 0xcf]);
        let mut pseudo = vec![0, 0, 0, 0, 255, 255, 255, 255, 0, 17, 0, 11];
        pseudo.extend(&packet[20..]);
        assert_eq!(ones_sum(&pseudo, 0), u16::MAX);
    }

    #[test]
    fn takes_only_whole_answers_of_a_server() {
        let good = answer(b"offer");
        assert_eq!(payload(&good), Some(&b"offer"[..]));
        let mut padded = good.clone();
        padded.extend([0; 18]);
        assert_eq!(payload(&padded), Some(&b"offer"[..]));

        let changed = |at: usize, value: u8| {
            let mut packet = good.clone();
            packet[at] = value;
            // Corrects the header's checksum, so that it is not the reason for the
            // rejection.
            packet[10..12].fill(0);
            let sum = !ones_sum(&packet[..20], 0);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            packet
        };
        for (what, packet) in [
            ("version 6", changed(0, 0x65)),
            ("short header", changed(0, 0x44)),
            ("TCP", changed(9, 6)),
            ("a fragment with more to come", changed(6, 0x20)),
            ("a later fragment", changed(7, 1)),
            ("longer than it is", changed(3, 200)),
            ("another source port", changed(21, 1)),
            ("another destination port", changed(23, 69)),
            ("a UDP length over the end", changed(25, 200)),
            ("a UDP length under its header", changed(25, 7)),
            ("cut", good[..good.len() - 1].to_vec()),
        ] {
            assert_eq!(payload(&packet), None, "{what}");
        }
        let mut corrupt = good.clone();
        corrupt[8] ^= 1;
        assert_eq!(payload(&corrupt), None);
    }
}
