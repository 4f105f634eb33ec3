//! The messages of the netlink family `NETLINK_ISCSI`: `struct iscsi_uevent` of
//! include/scsi/iscsi_if.h. The layout of this struct has not changed since Linux 2.6.
//! On the machines that we support, every word is in the processor's byte order.

/// Sizes in bytes of `struct nlmsghdr` and `struct iscsi_uevent`.
const NETLINK_HEADER: usize = 16;
const UEVENT: usize = 56;
/// The offset in `struct iscsi_uevent` of the union with the kernel's answer.
const ANSWER: usize = 40;

/// The kernel's numbers of the requests from user space (`enum iscsi_uevent_e`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    CreateSession = 11,
    DestroySession = 12,
    CreateConnection = 13,
    DestroyConnection = 14,
    BindConnection = 15,
    SetParameter = 16,
    StartConnection = 17,
    StopConnection = 18,
    SendPdu = 19,
}

const RECEIVED_PDU: u32 = 101;
const CONNECTION_ERROR: u32 = 102;
const INTERFACE_ERROR: u32 = 103;

/// `enum iscsi_param`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Parameter {
    MaxRecv = 0,
    MaxXmit = 1,
    HeaderDigest = 2,
    DataDigest = 3,
    InitialR2t = 4,
    MaxR2t = 5,
    ImmediateData = 6,
    FirstBurst = 7,
    MaxBurst = 8,
    PduInOrder = 9,
    DataSequenceInOrder = 10,
    ErrorRecoveryLevel = 11,
    ExpectedStatusNumber = 14,
    TargetName = 15,
    PortalGroup = 16,
    PersistentAddress = 17,
    PersistentPort = 18,
    RecoveryTimeout = 19,
    PingTimeout = 30,
    ReceiveTimeout = 31,
    InitiatorName = 34,
    BootRoot = 39,
    BootNic = 40,
    BootTarget = 41,
}

/// A request to the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request<'a> {
    CreateSession {
        first_command: u32,
        most_commands: u16,
        queue_depth: u16,
    },
    DestroySession {
        session: u32,
    },
    CreateConnection {
        session: u32,
    },
    DestroyConnection {
        session: u32,
    },
    /// Gives the kernel the socket, which it keeps open itself (`sockfd_lookup`).
    Bind {
        session: u32,
        socket: u64,
    },
    Set {
        session: u32,
        parameter: Parameter,
        value: &'a str,
    },
    Start {
        session: u32,
    },
    Stop {
        session: u32,
        flag: u32,
    },
    /// Sends a PDU: a header of 48 bytes, and its data.
    Send {
        session: u32,
        header: &'a [u8],
        data: &'a [u8],
    },
}

/// The values of `flag` in [`Request::Stop`]: the connection ends for good
/// (`STOP_CONN_TERM`), or until a new login (`STOP_CONN_RECOVER`).
pub(crate) const STOP_FOR_GOOD: u32 = 1;
pub(crate) const STOP_FOR_RECOVERY: u32 = 3;

impl Request<'_> {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::CreateSession { .. } => Kind::CreateSession,
            Self::DestroySession { .. } => Kind::DestroySession,
            Self::CreateConnection { .. } => Kind::CreateConnection,
            Self::DestroyConnection { .. } => Kind::DestroyConnection,
            Self::Bind { .. } => Kind::BindConnection,
            Self::Set { .. } => Kind::SetParameter,
            Self::Start { .. } => Kind::StartConnection,
            Self::Stop { .. } => Kind::StopConnection,
            Self::Send { .. } => Kind::SendPdu,
        }
    }

    /// The whole netlink message. Every connection has the number 0, because each
    /// session has only one connection.
    pub(crate) fn encode(&self, transport: u64) -> Vec<u8> {
        let kind = self.kind() as u32;
        let mut event = [0; UEVENT];
        let mut put = |at: usize, bytes: &[u8]| event[at..at + bytes.len()].copy_from_slice(bytes);
        let length = |part: &[u8]| u32::try_from(part.len()).unwrap_or(u32::MAX);
        put(0, &kind.to_ne_bytes());
        put(8, &transport.to_ne_bytes());
        let mut tail = Vec::new();
        match *self {
            Self::CreateSession {
                first_command,
                most_commands,
                queue_depth,
            } => {
                put(16, &first_command.to_ne_bytes());
                put(20, &most_commands.to_ne_bytes());
                put(22, &queue_depth.to_ne_bytes());
            }
            Self::DestroySession { session }
            | Self::CreateConnection { session }
            | Self::DestroyConnection { session }
            | Self::Start { session } => put(16, &session.to_ne_bytes()),
            Self::Bind { session, socket } => {
                put(16, &session.to_ne_bytes());
                put(24, &socket.to_ne_bytes());
                // This is the leading connection of the session.
                put(32, &1_u32.to_ne_bytes());
            }
            Self::Set {
                session,
                parameter,
                value,
            } => {
                tail.extend_from_slice(value.as_bytes());
                tail.push(0);
                put(16, &session.to_ne_bytes());
                put(24, &(parameter as u32).to_ne_bytes());
                put(28, &length(&tail).to_ne_bytes());
            }
            Self::Stop { session, flag } => {
                put(16, &session.to_ne_bytes());
                put(32, &flag.to_ne_bytes());
            }
            Self::Send {
                session,
                header,
                data,
            } => {
                put(16, &session.to_ne_bytes());
                put(24, &length(header).to_ne_bytes());
                put(28, &length(data).to_ne_bytes());
                tail.extend_from_slice(header);
                tail.extend_from_slice(data);
            }
        }
        let whole = u32::try_from(NETLINK_HEADER + UEVENT + tail.len()).unwrap_or(u32::MAX);
        let mut message = Vec::new();
        message.extend_from_slice(&whole.to_ne_bytes());
        message.extend_from_slice(&u16::try_from(kind).unwrap_or_default().to_ne_bytes());
        message.resize(NETLINK_HEADER, 0);
        message.extend_from_slice(&event);
        message.extend_from_slice(&tail);
        message
    }
}

/// A message from the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// The answer to the request of this kind.
    Answer(Answer),
    /// The kernel rejects the last request with this error number.
    Rejected(i32),
    Event(Event),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) kind: u32,
    /// The first word: the number of a created session, or an error number (0 or
    /// negative).
    pub(crate) first: u32,
    /// The second word: the SCSI host of a created session.
    pub(crate) second: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A connection has failed.
    ConnectionError { session: u32, code: u32 },
    /// A PDU for user space: a login response, or an asynchronous message.
    Received {
        session: u32,
        header: [u8; 48],
        data: Vec<u8>,
    },
    /// An event of another type, with its number. The agent ignores it.
    Other(u32),
}

impl Event {
    /// The session to which the event belongs.
    pub(crate) fn session(&self) -> Option<u32> {
        match self {
            Self::ConnectionError { session, .. } | Self::Received { session, .. } => {
                Some(*session)
            }
            Self::Other(_) => None,
        }
    }
}

/// Decodes one netlink message. `None` if the message is incomplete.
pub(crate) fn decode(message: &[u8]) -> Option<Message> {
    let word = |at: usize| {
        let bytes = message.get(NETLINK_HEADER + at..NETLINK_HEADER + at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let whole = usize::try_from(u32::from_ne_bytes(message.get(..4)?.try_into().ok()?)).ok()?;
    let payload = message.get(NETLINK_HEADER..whole.min(message.len()))?;
    if payload.len() < UEVENT {
        return None;
    }
    let kind = word(0)?;
    Some(match kind {
        INTERFACE_ERROR => Message::Rejected(word(4)?.cast_signed()),
        CONNECTION_ERROR => Message::Event(Event::ConnectionError {
            session: word(ANSWER)?,
            code: word(ANSWER + 8)?,
        }),
        RECEIVED_PDU => {
            let (header, data) = payload[UEVENT..].split_first_chunk()?;
            Message::Event(Event::Received {
                session: word(ANSWER)?,
                header: *header,
                data: data.to_vec(),
            })
        }
        11..=19 => Message::Answer(Answer {
            kind,
            first: word(ANSWER)?,
            second: word(ANSWER + 4)?,
        }),
        other => Message::Event(Event::Other(other)),
    })
}

/// The kernel's reason for [`Event::ConnectionError`] (`enum iscsi_err`).
pub(crate) fn reason(code: u32) -> String {
    let words = match code {
        1006 => "a part of the protocol was not in order",
        1011 => "the connection failed",
        1014 => "the digest of a header is wrong",
        1015 => "the digest of data is wrong",
        1019 => "sending failed",
        1020 => "the target closed the connection",
        1021 => "the kernel gave up a command and resets the session",
        1022 => "the target did not answer for 5 s",
        other => return format!("error {other} of the kernel's iSCSI"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    // The offsets are those that gcc gives the members of open-iscsi's header.
    #[test]
    fn requests_have_the_kernels_layout() {
        let bind = Request::Bind {
            session: 3,
            socket: 9,
        }
        .encode(0x1122_3344_5566_7788);
        assert_eq!(bind.len(), 72);
        assert_eq!(
            (word(&bind, 0), u16::from_ne_bytes([bind[4], bind[5]])),
            (72, 15)
        );
        assert_eq!((word(&bind, 16), word(&bind, 16 + 16)), (15, 3));
        assert_eq!((word(&bind, 16 + 24), word(&bind, 16 + 32)), (9, 1));
        let set = Request::Set {
            session: 3,
            parameter: Parameter::TargetName,
            value: "iqn",
        };
        let set = set.encode(1);
        assert_eq!((word(&set, 16 + 24), word(&set, 16 + 28)), (15, 4));
        assert_eq!(set[72..], *b"iqn\0");
        let stop = Request::Stop {
            session: 3,
            flag: STOP_FOR_RECOVERY,
        }
        .encode(1);
        assert_eq!(word(&stop, 16 + 32), 3);
        let send = Request::Send {
            session: 3,
            header: &[7; 48],
            data: b"a=b\0",
        }
        .encode(1);
        assert_eq!(
            (word(&send, 16 + 24), word(&send, 16 + 28), send.len()),
            (48, 4, 124)
        );
    }

    #[test]
    fn the_kernels_messages_are_distinguished() {
        let message = |kind: u32, iferror: i32, tail: &[u8]| {
            let mut bytes = vec![0; NETLINK_HEADER + UEVENT];
            bytes.extend_from_slice(tail);
            let whole = u32::try_from(bytes.len()).unwrap();
            for (at, value) in [
                (0, whole),
                (16, kind),
                (20, iferror.cast_unsigned()),
                (16 + 40, 5),
                (16 + 44, 6),
                (16 + 48, 1020),
            ] {
                bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            }
            decode(&bytes)
        };
        let answer = Answer {
            kind: 11,
            first: 5,
            second: 6,
        };
        assert_eq!(message(11, 0, &[]), Some(Message::Answer(answer)));
        assert_eq!(message(103, -22, &[]), Some(Message::Rejected(-22)));
        let error = Event::ConnectionError {
            session: 5,
            code: 1020,
        };
        assert_eq!(message(102, 0, &[]), Some(Message::Event(error)));
        assert_eq!(message(101, 0, &[0; 47]), None);
        let received = Event::Received {
            session: 5,
            header: [1; 48],
            data: vec![1; 2],
        };
        assert_eq!(message(101, 0, &[1; 50]), Some(Message::Event(received)));
        assert_eq!(
            message(110, 0, &[]),
            Some(Message::Event(Event::Other(110)))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
