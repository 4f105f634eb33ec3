//! The PDUs of the login phase: Login Request and Login Response (RFC 7143, 11.12 and
//! 11.13). Everything else in this phase is a fault.

/// The size in bytes of the basic header segment.
pub const HEADER: usize = 48;
/// The maximum size in bytes of the data in a PDU of the login phase (RFC 7143, 13.12).
/// The kernel has the same limit (libiscsi_tcp.c).
pub const MOST_DATA: usize = 8192;

const LOGIN_REQUEST: u8 = 0x03;
const IMMEDIATE: u8 = 0x40;
const LOGIN_RESPONSE: u8 = 0x23;
const REJECT: u8 = 0x3f;
const TRANSIT: u8 = 0x80;
const CONTINUE: u8 = 0x40;

/// The stages of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Security,
    Operational,
    /// The end of the login.
    FullFeature,
}

impl Stage {
    fn code(self) -> u8 {
        match self {
            Self::Security => 0,
            Self::Operational => 1,
            Self::FullFeature => 3,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        match code & 3 {
            0 => Some(Self::Security),
            1 => Some(Self::Operational),
            3 => Some(Self::FullFeature),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginRequest {
    pub current: Stage,
    /// The stage to change to, if this side is ready for it.
    pub next: Option<Stage>,
    pub isid: [u8; 6],
    pub task_tag: u32,
    pub command_number: u32,
    pub expected_status_number: u32,
    /// Pairs `key=value`, each followed by a NUL; see [`crate::text_keys`].
    pub data: Vec<u8>,
}

impl LoginRequest {
    /// Encodes header, data and padding. Data beyond [`MOST_DATA`] bytes is cut off.
    pub fn encode(&self) -> Vec<u8> {
        let data = &self.data[..self.data.len().min(MOST_DATA)];
        let mut bytes = vec![0; HEADER];
        bytes[0] = IMMEDIATE | LOGIN_REQUEST;
        bytes[1] = self.current.code() << 2;
        if let Some(next) = self.next {
            bytes[1] |= TRANSIT | next.code();
        }
        let length = u32::try_from(data.len()).unwrap_or_default().to_be_bytes();
        bytes[5..8].copy_from_slice(&length[1..]);
        bytes[8..14].copy_from_slice(&self.isid);
        bytes[16..20].copy_from_slice(&self.task_tag.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.command_number.to_be_bytes());
        bytes[28..32].copy_from_slice(&self.expected_status_number.to_be_bytes());
        bytes.extend_from_slice(data);
        bytes.resize(padded(bytes.len()), 0);
        bytes
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginResponse {
    pub current: Option<Stage>,
    /// The stage that the target changes to.
    pub next: Option<Stage>,
    /// More text follows in the next response.
    pub continues: bool,
    pub version_active: u8,
    pub session: u16,
    pub task_tag: u32,
    pub status_number: u32,
    /// Class and detail (RFC 7143, 11.13.5).
    pub status: u16,
    pub data: Vec<u8>,
}

/// Why bytes are not a response to a login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PduFault {
    #[error("expected a login response, found opcode {0:#04x}")]
    Opcode(u8),
    #[error("the target rejects the login as a protocol error, reason {0:#04x}")]
    Rejected(u8),
    #[error("expected at most {MOST_DATA} bytes of data in a login response, found {0}")]
    TooLong(usize),
    #[error("expected a login response without additional headers, found {0} words of them")]
    AdditionalHeaders(u8),
    #[error("expected {expected} bytes of data in a login response, found {found}")]
    Short { expected: usize, found: usize },
}

/// The length of the data that follows the header, without its padding.
///
/// # Errors
/// If the header is not that of a login response, or if it announces more data than
/// [`MOST_DATA`].
pub fn data_length(header: &[u8; HEADER]) -> Result<usize, PduFault> {
    match header[0] & 0x3f {
        LOGIN_RESPONSE => (),
        REJECT => return Err(PduFault::Rejected(header[2])),
        other => return Err(PduFault::Opcode(other)),
    }
    if header[4] != 0 {
        return Err(PduFault::AdditionalHeaders(header[4]));
    }
    let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
    match length {
        0..=MOST_DATA => Ok(length),
        _ => Err(PduFault::TooLong(length)),
    }
}

/// The length with the padding to four bytes.
pub fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

impl LoginResponse {
    /// Parses a header and the data that follows it, with or without its padding.
    ///
    /// # Errors
    /// As [`data_length`], and if the data is too short.
    pub fn parse(header: &[u8; HEADER], data: &[u8]) -> Result<Self, PduFault> {
        let length = data_length(header)?;
        let data = data.get(..length).ok_or(PduFault::Short {
            expected: length,
            found: data.len(),
        })?;
        let number = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let flags = header[1];
        let transits = flags & TRANSIT != 0;
        Ok(Self {
            current: Stage::from_code(flags >> 2),
            next: transits.then(|| Stage::from_code(flags)).flatten(),
            continues: flags & CONTINUE != 0,
            version_active: header[3],
            session: u16::from_be_bytes([header[14], header[15]]),
            task_tag: number(16),
            status_number: number(24),
            status: u16::from_be_bytes([header[36], header[37]]),
            data: data.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_has_the_layout_of_the_rfc() {
        let request = LoginRequest {
            current: Stage::Operational,
            next: Some(Stage::FullFeature),
            isid: [0x80, 1, 2, 3, 4, 5],
            task_tag: 0x0a0b_0c0d,
            command_number: 7,
            expected_status_number: 9,
            data: b"a=b\0c".to_vec(),
        };
        let bytes = request.encode();
        assert_eq!(bytes.len(), HEADER + 8);
        assert_eq!(bytes[..8], [0x43, 0x87, 0, 0, 0, 0, 0, 5]);
        assert_eq!(
            bytes[8..20],
            [0x80, 1, 2, 3, 4, 5, 0, 0, 0x0a, 0x0b, 0x0c, 0x0d]
        );
        assert_eq!(bytes[24..32], [0, 0, 0, 7, 0, 0, 0, 9]);
        assert_eq!(bytes[HEADER..], *b"a=b\0c\0\0\0");
    }

    #[test]
    fn a_header_that_is_no_response_is_rejected() {
        let mut header = [0; HEADER];
        assert_eq!(data_length(&header), Err(PduFault::Opcode(0)));
        header[..3].copy_from_slice(&[0x3f, 0, 4]);
        assert_eq!(data_length(&header), Err(PduFault::Rejected(4)));
        header[0] = 0x23;
        header[4] = 1;
        assert_eq!(data_length(&header), Err(PduFault::AdditionalHeaders(1)));
        header[4..8].copy_from_slice(&[0, 0, 0x20, 1]);
        assert_eq!(data_length(&header), Err(PduFault::TooLong(8193)));
        header[4..8].copy_from_slice(&[0, 0, 0, 4]);
        let short = PduFault::Short {
            expected: 4,
            found: 3,
        };
        assert_eq!(LoginResponse::parse(&header, b"abc"), Err(short));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_rejected(header in any::<[u8; 32]>(), data in any::<Vec<u8>>()) {
            let mut whole = [0; HEADER];
            whole[..32].copy_from_slice(&header);
            whole[0] = LOGIN_RESPONSE;
            if let Ok(response) = LoginResponse::parse(&whole, &data) {
                prop_assert!(response.data.len() <= MOST_DATA);
            }
        }
    }
}
