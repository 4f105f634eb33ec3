//! Encodes DHCPv4 requests, and decodes answers as far as they can be trusted.

use std::net::Ipv4Addr;

use dhcproto::error::EncodeError;
use dhcproto::v4::{DhcpOption, DhcpOptions, Flags, Message, MessageType, Opcode, OptionCode};
use dhcproto::{Decodable as _, Decoder, Encodable as _, Encoder};
use landfall_network_plan::MacAddr;

use super::Settings;

/// The maximum message size in bytes that the client announces. It fits into an Ethernet
/// frame.
pub(super) const LONGEST: usize = 1472;
/// The minimum size of a request in bytes. BOOTP relays may drop messages that are
/// shorter than a BOOTP message.
const SHORTEST: usize = 300;
/// The length in bytes of everything before the options, including the magic cookie.
const HEADER: usize = 240;

/// The options that the client requests. Classless routes come before the router,
/// as RFC 3442 requires.
const WANTED: &[OptionCode] = &[
    OptionCode::SubnetMask,
    OptionCode::ClasslessStaticRoute,
    OptionCode::Router,
    OptionCode::DomainNameServer,
    OptionCode::Hostname,
    OptionCode::DomainName,
    OptionCode::InterfaceMtu,
    OptionCode::NtpServers,
    OptionCode::DomainSearch,
];

/// Further options that the client reads from an answer.
const ALSO_READ: &[OptionCode] = &[
    OptionCode::MessageType,
    OptionCode::ServerIdentifier,
    OptionCode::AddressLeaseTime,
    OptionCode::Renewal,
    OptionCode::Rebinding,
];

/// The messages of a client (RFC 2131, table 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// Looks for servers.
    Discover,
    /// Accepts an offer.
    Take { address: Ipv4Addr, server: Ipv4Addr },
    /// Renews the lease of this address.
    Keep { address: Ipv4Addr },
    /// Reports that another machine has the leased address.
    Decline { address: Ipv4Addr, server: Ipv4Addr },
}

impl Request {
    /// Encodes the message. The error is the codec's.
    pub(super) fn encode(
        self,
        settings: &Settings,
        transaction: u32,
        seconds: u16,
    ) -> Result<Vec<u8>, EncodeError> {
        let current = match self {
            Request::Keep { address } => address,
            Request::Discover | Request::Take { .. } | Request::Decline { .. } => {
                Ipv4Addr::UNSPECIFIED
            }
        };
        let none = Ipv4Addr::UNSPECIFIED;
        let mac = settings.mac.0;
        let mut message = Message::new_with_id(transaction, current, none, none, none, &mac);
        message
            .set_opcode(Opcode::BootRequest)
            .set_flags(Flags::default())
            .set_secs(seconds);
        self.options(settings, message.opts_mut());
        let mut bytes = Vec::with_capacity(SHORTEST);
        message.encode(&mut Encoder::new(&mut bytes))?;
        if bytes.len() < SHORTEST {
            bytes.resize(SHORTEST, 0);
        }
        Ok(bytes)
    }

    fn options(self, settings: &Settings, options: &mut DhcpOptions) {
        let kind = match self {
            Request::Discover => MessageType::Discover,
            Request::Take { .. } | Request::Keep { .. } => MessageType::Request,
            Request::Decline { .. } => MessageType::Decline,
        };
        options.insert(DhcpOption::MessageType(kind));
        match self {
            Request::Discover => {
                if let Some(address) = settings.previous {
                    options.insert(DhcpOption::RequestedIpAddress(address));
                }
            }
            Request::Take { address, server } | Request::Decline { address, server } => {
                options.insert(DhcpOption::RequestedIpAddress(address));
                options.insert(DhcpOption::ServerIdentifier(server));
            }
            Request::Keep { .. } => {}
        }
        // The client sends the same identity as the installed CoreOS, where
        // NetworkManager runs with `dhcp-client-id=mac`. So a lease that is reserved for
        // the host applies to both systems.
        let id = settings.client_id.clone().unwrap_or_else(|| {
            let ethernet = 1;
            [&[ethernet], &settings.mac.0[..]].concat()
        });
        options.insert(DhcpOption::ClientIdentifier(id));
        if matches!(self, Request::Decline { .. }) {
            // RFC 2131, table 5: a decline requests no options.
            return;
        }
        options.insert(DhcpOption::MaxMessageSize(LONGEST as u16));
        options.insert(DhcpOption::ParameterRequestList(WANTED.to_vec()));
        if let Some(name) = &settings.host_name {
            options.insert(DhcpOption::Hostname(name.clone()));
        }
        if let Some(class) = &settings.vendor_class {
            options.insert(DhcpOption::ClassIdentifier(class.clone()));
        }
    }
}

/// A server's answer to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(super) kind: MessageType,
    /// The address for the client (`yiaddr`).
    pub(super) address: Ipv4Addr,
    /// The known options that decoded without an error.
    pub(super) options: DhcpOptions,
}

impl Answer {
    /// Reads a payload. Returns `None` unless it answers this transaction of this
    /// interface.
    pub fn parse(payload: &[u8], transaction: u32, mac: MacAddr) -> Option<Answer> {
        let header = payload.get(..HEADER)?;
        let message = Message::decode(&mut Decoder::new(header)).ok()?;
        let for_us = message.opcode() == Opcode::BootReply
            && message.xid() == transaction
            // Compare only the six bytes of the MAC, and not the padding after them or
            // the length that the server wrote.
            && header[28..34] == mac.0
            && header[236..240] == dhcproto::v4::MAGIC;
        if !for_us {
            return None;
        }
        let options = options(&payload[HEADER..]);
        let Some(DhcpOption::MessageType(kind)) = options.get(OptionCode::MessageType) else {
            return None;
        };
        Some(Answer {
            kind: *kind,
            address: message.yiaddr(),
            options,
        })
    }
}

/// Decodes each wanted option separately, because the codec stops at the first invalid
/// option and would lose the valid ones after it. Other options are never decoded,
/// because some of them (81, 91, 151) make dhcproto 0.15 panic when they are too short.
fn options(mut bytes: &[u8]) -> DhcpOptions {
    let mut options = DhcpOptions::new();
    while let Some((&code, rest)) = bytes.split_first() {
        match OptionCode::from(code) {
            OptionCode::End => break,
            OptionCode::Pad => bytes = rest,
            code_name => {
                let run = run_of_one_code(bytes);
                let read = WANTED.contains(&code_name) || ALSO_READ.contains(&code_name);
                if read && let Ok(option) = DhcpOption::decode(&mut Decoder::new(&bytes[..run])) {
                    options.insert(option);
                }
                bytes = &bytes[run..];
            }
        }
    }
    options
}

/// Length of the first option and the options of the same code that directly follow
/// it: an option over 255 bytes is split into pieces (RFC 3396).
fn run_of_one_code(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some([code, length]) = bytes.get(end..end + 2)
        && *code == bytes[0]
    {
        end += 2 + usize::from(*length);
    }
    if end == 0 {
        bytes.len()
    } else {
        end.min(bytes.len())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::time::Duration;

    pub(in super::super) const MAC: MacAddr = MacAddr([0x52, 0x54, 0, 0, 0, 1]);

    fn settings() -> Settings {
        Settings {
            index: 2,
            name: "eth0".into(),
            mac: MAC,
            client_id: None,
            host_name: Some("node7".into()),
            vendor_class: None,
            code_point: 0,
            series: Duration::from_secs(90),
            previous: None,
        }
    }

    pub(in super::super) fn answer_bytes(address: Ipv4Addr, options: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(&[2, 1, 6, 0]);
        bytes[4..8].copy_from_slice(&7_u32.to_be_bytes());
        bytes[16..20].copy_from_slice(&address.octets());
        bytes[28..34].copy_from_slice(&MAC.0);
        bytes[236..240].copy_from_slice(&dhcproto::v4::MAGIC);
        bytes.extend(options);
        bytes
    }

    pub(in super::super) fn answer(address: Ipv4Addr, options: &[u8]) -> Option<Answer> {
        Answer::parse(&answer_bytes(address, options), 7, MAC)
    }

    #[test]
    fn a_request_has_identity_and_wanted_options() {
        let address = Ipv4Addr::new(192, 0, 2, 77);
        let server = Ipv4Addr::new(192, 0, 2, 1);
        let mut who = settings();
        who.previous = Some(address);
        let read = |request: Request| {
            let bytes = request.encode(&who, 7, 3).unwrap();
            assert!(
                bytes.len() >= SHORTEST && bytes.len() <= 576,
                "{}",
                bytes.len()
            );
            Message::decode(&mut Decoder::new(&bytes)).unwrap()
        };
        let option = |message: &Message, code| message.opts().get(code).cloned();

        let discover = read(Request::Discover);
        assert_eq!((discover.xid(), discover.secs()), (7, 3));
        assert_eq!(discover.chaddr(), MAC.0);
        assert!(discover.opts().has_msg_type(MessageType::Discover));
        assert_eq!(
            option(&discover, OptionCode::RequestedIpAddress),
            Some(DhcpOption::RequestedIpAddress(address))
        );
        assert_eq!(
            option(&discover, OptionCode::ClientIdentifier),
            Some(DhcpOption::ClientIdentifier(vec![
                1, 0x52, 0x54, 0, 0, 0, 1
            ]))
        );
        assert_eq!(
            option(&discover, OptionCode::Hostname),
            Some(DhcpOption::Hostname("node7".into()))
        );

        let take = read(Request::Take { address, server });
        assert!(take.opts().has_msg_type(MessageType::Request));
        assert_eq!(take.ciaddr(), Ipv4Addr::UNSPECIFIED);
        assert_eq!(
            option(&take, OptionCode::ServerIdentifier),
            Some(DhcpOption::ServerIdentifier(server))
        );

        // In a renewal there is no server identifier and no requested address (RFC
        // 2131, 4.3.2).
        let keep = read(Request::Keep { address });
        assert_eq!(keep.ciaddr(), address);
        assert_eq!(option(&keep, OptionCode::ServerIdentifier), None);
        assert_eq!(option(&keep, OptionCode::RequestedIpAddress), None);
    }

    #[test]
    fn takes_only_answers_to_its_own_question() {
        let offer = [53, 1, 2, 255];
        let good = answer_bytes(Ipv4Addr::new(192, 0, 2, 77), &offer);
        let read = |bytes: &[u8]| Answer::parse(bytes, 7, MAC);
        assert_eq!(read(&good).unwrap().kind, MessageType::Offer);
        for (what, at, value) in [
            ("a request", 0, 1),
            ("another transaction", 7, 8),
            ("another station", 33, 2),
            ("no magic", 239, 0),
            ("no message type", 240, 52),
        ] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(read(&bytes), None, "{what}");
        }
        assert_eq!(read(&good[..HEADER - 1]), None);
        assert_eq!(read(&good[..HEADER]), None);
    }

    #[test]
    fn one_bad_option_does_not_cost_the_others() {
        let answer = answer(
            Ipv4Addr::new(192, 0, 2, 77),
            &[
                53, 1, 5, // message type
                12, 2, 0xff, 0xfe, // a host name that is no UTF-8
                1, 3, 255, 255, 255, // a mask of three bytes
                81, 1, 0, // the client's name, too short, not read
                151, 0, // a status without a code, not read
                0, 0, // padding
                51, 4, 0, 0, 0, 60, // lease time
                3, 4, 192, 0, 2, 1, 3, 4, 192, 0, 2, 2, // a router list in two pieces
                6, 9, 1, // cut off
            ],
        )
        .unwrap();
        assert_eq!(answer.kind, MessageType::Ack);
        assert_eq!(answer.options.len(), 3);
        assert_eq!(
            answer.options.get(OptionCode::Router),
            Some(&DhcpOption::Router(vec![
                Ipv4Addr::new(192, 0, 2, 1),
                Ipv4Addr::new(192, 0, 2, 2)
            ]))
        );
    }
}
