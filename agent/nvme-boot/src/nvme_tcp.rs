//! The first request of an NVMe/TCP connection and its answer (ICReq and ICResp in the NVM
//! Express NVMe/TCP Transport Specification). Has no side effects.

/// The length of a request, and the maximum that the agent reads of an answer, in bytes.
pub const INITIALIZE: usize = 128;

const IC_REQ: u8 = 0x00;
const IC_RESP: u8 = 0x01;
const C2H_TERM_REQ: u8 = 0x03;

/// Bytes that every PDU begins with: type, flags, lengths.
const COMMON_HEADER: usize = 8;

/// Why this is not the answer of an NVMe/TCP target that accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerFault {
    #[error("expected a PDU of type 0x01 (ICResp), found type {0:#04x}")]
    OtherType(u8),
    #[error(
        "expected a PDU of type 0x01 (ICResp), found a termination (C2HTermReq) with fatal error status {0}"
    )]
    Terminated(u16),
}

/// The request to initialise a connection (ICReq), as the kernel sends it
/// (`nvme_tcp_init_connection` in drivers/nvme/host/tcp.c).
pub fn request(header_digest: bool, data_digest: bool) -> [u8; INITIALIZE] {
    let mut pdu = [0; INITIALIZE];
    pdu[0] = IC_REQ;
    // The length of the header, and of the whole PDU. The version of the format (PFV), the
    // alignment of data and the number of R2T PDUs, counted from zero, are all 0.
    pdu[2] = INITIALIZE as u8;
    pdu[4..8].copy_from_slice(&(INITIALIZE as u32).to_le_bytes());
    pdu[11] = u8::from(header_digest) | u8::from(data_digest) << 1;
    pdu
}

/// Judges the first bytes of an answer. `None` if the answer needs more bytes.
///
/// The kernel decides whether it can use the fields of the answer. Here the type is enough,
/// so no target that the kernel accepts is rejected.
pub fn answer(bytes: &[u8]) -> Option<Result<(), AnswerFault>> {
    let (header, rest) = bytes.split_first_chunk::<COMMON_HEADER>()?;
    match header[0] {
        IC_RESP => Some(Ok(())),
        C2H_TERM_REQ => {
            let status = rest.first_chunk()?;
            Some(Err(AnswerFault::Terminated(u16::from_le_bytes(*status))))
        }
        other => Some(Err(AnswerFault::OtherType(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_kernels() {
        let mut expected = [0; INITIALIZE];
        expected[..8].copy_from_slice(&[0, 0, 128, 0, 128, 0, 0, 0]);
        assert_eq!(request(false, false), expected);
        for (header, data, byte) in [(true, false, 1), (false, true, 2), (true, true, 3)] {
            expected[11] = byte;
            assert_eq!(request(header, data), expected);
        }
    }

    #[test]
    fn only_the_type_of_an_answer_counts() {
        let other = |kind| Some(Err(AnswerFault::OtherType(kind)));
        let mut long = vec![1, 0, 128, 0, 128, 0, 0, 0];
        long.resize(INITIALIZE, 0);
        for (bytes, expected) in [
            (&b""[..], None),
            (&[1, 0, 128, 0, 128, 0, 0], None),
            (&[1, 0, 128, 0, 128, 0, 0, 0], Some(Ok(()))),
            (&long, Some(Ok(()))),
            // Lengths and a version that the specification does not permit.
            (&[1, 9, 24, 3, 24, 0, 0, 0, 7, 7], Some(Ok(()))),
            (&[3, 0, 24, 0, 152, 0, 0, 0], None),
            (&[3, 0, 24, 0, 152, 0, 0, 0, 6], None),
            (
                &[3, 0, 24, 0, 152, 0, 0, 0, 6, 0],
                Some(Err(AnswerFault::Terminated(6))),
            ),
            // The request itself, from a server that repeats what it gets.
            (&request(false, false), other(0)),
            (b"SSH-2.0-OpenSSH_9.2p1\r\n", other(b'S')),
            (b"HTTP/1.1 400 Bad Request\r\n", other(b'H')),
            (&[0xff; 300], other(0xff)),
        ] {
            assert_eq!(answer(bytes), expected, "{bytes:?}");
        }
    }
}
