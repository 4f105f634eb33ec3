use dhcproto::v6::{Status as CodecStatus, StatusCode};
use landfall_network_plan::MacAddr;
use proptest::prelude::*;

use super::*;

pub(in super::super) const MAC: MacAddr = MacAddr([0x52, 0x54, 0, 0xc0, 0xff, 1]);
pub(in super::super) const SERVER: [u8; 4] = [0, 3, 0, 9];
const TRANSACTION: [u8; 3] = [1, 2, 3];
const OURS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77);

fn identity() -> Identity {
    Identity::of(MAC)
}

/// An association of the client's interface with one address.
pub(in super::super) fn granted(address: Ipv6Addr, times: [u32; 4]) -> DhcpOption {
    let [t1, t2, preferred_life, valid_life] = times;
    let address = DhcpOption::IAAddr(IAAddr {
        addr: address,
        preferred_life,
        valid_life,
        opts: DhcpOptions::new(),
    });
    DhcpOption::IANA(IANA {
        id: identity().iaid,
        t1,
        t2,
        opts: std::iter::once(address).collect(),
    })
}

/// An association with an error status and no address.
pub(in super::super) fn denied(code: u16, text: &str) -> DhcpOption {
    let status = DhcpOption::StatusCode(StatusCode {
        status: CodecStatus::from(code),
        msg: text.to_owned(),
    });
    DhcpOption::IANA(IANA {
        id: identity().iaid,
        t1: 0,
        t2: 0,
        opts: std::iter::once(status).collect(),
    })
}

/// A message from the server to the client.
pub(in super::super) fn answer_bytes(
    kind: MessageType,
    transaction: [u8; 3],
    more: Vec<DhcpOption>,
) -> Vec<u8> {
    let mut message = Message::new_with_id(kind, transaction);
    let options = message.opts_mut();
    options.insert(DhcpOption::ClientId(identity().duid));
    options.insert(DhcpOption::ServerId(SERVER.to_vec()));
    for option in more {
        options.insert(option);
    }
    let mut bytes = Vec::new();
    message.encode(&mut Encoder::new(&mut bytes)).unwrap();
    bytes
}

fn raw(code: u16, value: &[u8]) -> Vec<u8> {
    let mut option = code.to_be_bytes().to_vec();
    option.extend((value.len() as u16).to_be_bytes());
    option.extend(value);
    option
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    Answer::parse(bytes, TRANSACTION, &identity())
}

#[test]
fn a_request_has_identity_and_wanted_options() {
    let read = |kind, server: Option<&[u8]>, address| {
        let request = Request {
            kind,
            transaction: TRANSACTION,
            elapsed: 100,
            server,
            address,
        };
        let bytes = request
            .encode(&identity(), Some("node7.example.org"))
            .unwrap();
        Message::decode(&mut Decoder::new(&bytes)).unwrap()
    };
    let has = |message: &Message, code| message.opts().get(code).is_some();

    let solicit = read(MessageType::Solicit, None, None);
    assert_eq!(solicit.xid(), TRANSACTION);
    let duid = DhcpOption::ClientId(vec![0, 3, 0, 1, 0x52, 0x54, 0, 0xc0, 0xff, 1]);
    assert_eq!(solicit.opts().get(OptionCode::ClientId), Some(&duid));
    assert!(has(&solicit, OptionCode::RapidCommit));
    let Some(DhcpOption::IANA(ia)) = solicit.opts().get(OptionCode::IANA) else {
        panic!("expected an association");
    };
    assert_eq!((ia.id, ia.opts.iter().count()), (0x00c0_ff01, 0));
    let Some(DhcpOption::Unknown(name)) = solicit.opts().get(OptionCode::ClientFqdn) else {
        panic!("expected a name");
    };
    assert_eq!(name.data(), b"\x01\x05node7\x07example\x03org\x00");

    let request = read(MessageType::Request, Some(&SERVER), Some(OURS));
    assert!(has(&request, OptionCode::ServerId) && !has(&request, OptionCode::RapidCommit));

    // A Confirm and a Decline request no options (RFC 8415, 18.2.3 and 18.2.8).
    for kind in [MessageType::Confirm, MessageType::Decline] {
        let message = read(kind, None, Some(OURS));
        assert!(has(&message, OptionCode::IANA) && !has(&message, OptionCode::ORO));
    }

    let information = read(MessageType::InformationRequest, None, None);
    assert!(!has(&information, OptionCode::IANA));
    let Some(DhcpOption::ORO(wanted)) = information.opts().get(OptionCode::ORO) else {
        panic!("expected a list");
    };
    let codes: Vec<u16> = wanted.opts.iter().map(|code| (*code).into()).collect();
    assert_eq!(codes, [23, 24, 56, 82, 32, 83]);
}

#[test]
fn everything_a_server_can_say() {
    let mut bytes = answer_bytes(
        MessageType::Reply,
        TRANSACTION,
        vec![
            granted(OURS, [10, 20, 30, 40]),
            DhcpOption::Preference(7),
            DhcpOption::RapidCommit,
            DhcpOption::DomainNameServers(vec![
                "2001:db8::53".parse().unwrap(),
                Ipv6Addr::LOCALHOST,
            ]),
            DhcpOption::NtpServer(vec![
                NtpSuboption::ServerAddress("2001:db8::123".parse().unwrap()),
                NtpSuboption::FQDN("ntp.example.org.".parse().unwrap()),
            ]),
        ],
    );
    bytes.extend(raw(24, b"\x03lab\x07example\x00\x03net\x00"));
    bytes.extend(raw(82, &600_u32.to_be_bytes()));
    bytes.extend(raw(32, &900_u32.to_be_bytes()));
    let found = parse(&bytes).unwrap();
    let association = found.association.as_ref().unwrap();
    assert_eq!((association.renew, association.rebind), (10, 20));
    let address = Address {
        address: OURS,
        preferred: 30,
        valid: 40,
    };
    assert_eq!(association.addresses, [(address, Status::default())]);
    assert!(found.is_reply && found.rapid_commit);
    assert_eq!(
        (found.preference, found.server.as_slice()),
        (7, &SERVER[..])
    );
    assert_eq!(found.dns, ["2001:db8::53".parse::<Ipv6Addr>().unwrap()]);
    assert_eq!(found.ntp, ["2001:db8::123".parse::<Ipv6Addr>().unwrap()]);
    assert_eq!(found.search, ["lab.example", "net"]);
    assert_eq!(
        (found.longest_search, found.refresh),
        (Some(600), Some(900))
    );
}

#[test]
fn takes_only_answers_to_its_own_question() {
    let good = answer_bytes(MessageType::Advertise, TRANSACTION, Vec::new());
    assert!(parse(&good).is_some());
    for (what, at, value) in [
        ("a question", 0, 1),
        ("another transaction", 3, 4),
        ("another client", 13, 2),
        ("no server", 19, 6),
    ] {
        let mut bytes = good.clone();
        bytes[at] = value;
        assert_eq!(parse(&bytes), None, "{what}");
    }
    assert_eq!(parse(&good[..3]), None);
    assert_eq!(parse(&good[..4]), None);
}

#[test]
fn a_bad_option_does_not_cost_the_others() {
    let mut bytes = answer_bytes(MessageType::Reply, TRANSACTION, Vec::new());
    bytes.extend(raw(23, &[0; 15])); // servers of 15 bytes
    bytes.extend(raw(17, &[0])); // vendor options, too short, not read
    bytes.extend(raw(3, &[0, 0xc0, 0xff])); // an association, cut off
    let mut other = [0; 12];
    other[3] = 9;
    bytes.extend(raw(3, &other)); // association of another interface
    bytes.extend(raw(24, b"\x05a\nb c\x00\x03net\x00")); // a domain with a line break
    bytes.extend(raw(56, &[0, 1, 0, 2, 0, 0])); // an NTP server of 2 bytes
    bytes.extend(raw(23, &OURS.octets()));
    bytes.extend([0, 23, 0, 99, 1]); // cut off
    let found = parse(&bytes).unwrap();
    assert_eq!(found.association, None);
    assert_eq!(found.dns, [OURS]);
    assert_eq!(found.search, ["net"]);
    assert!(found.ntp.is_empty());
}

#[test]
fn a_text_of_a_server_is_one_short_line() {
    let long = "no\naddress\x1b[31m ".repeat(40);
    let bytes = answer_bytes(
        MessageType::Reply,
        TRANSACTION,
        vec![denied(Status::NO_ADDRESS, &long)],
    );
    let status = parse(&bytes).unwrap().association.unwrap().status;
    assert_eq!(status.code, Status::NO_ADDRESS);
    assert!(status.text.len() <= 120 && !status.text.contains(char::is_control));
}

proptest! {
    #[test]
    fn no_well_formed_option_panics(
        list in proptest::collection::vec(
            (prop_oneof![0_u16..100, any::<u16>()], proptest::collection::vec(any::<u8>(), 0..60)),
            0..12,
        )
    ) {
        let mut bytes = answer_bytes(MessageType::Reply, TRANSACTION, Vec::new());
        for (code, mut value) in list {
            if code == 3 && value.len() > 4 {
                value[..4].copy_from_slice(&identity().iaid.to_be_bytes());
            }
            bytes.extend(raw(code, &value));
        }
        if let Some(answer) = parse(&bytes) {
            prop_assert!(answer.search.iter().all(|name| is_host_name(name)));
            prop_assert!(answer.dns.len() <= MOST_SERVERS);
        }
    }
}
