//! Encodes DHCPv6 requests, and decodes answers as far as they can be trusted.

use std::net::Ipv6Addr;

use dhcproto::error::EncodeError;
use dhcproto::v6::{
    DhcpOption, DhcpOptions, IAAddr, IANA, Message, MessageType, NtpSuboption, ORO, OptionCode,
    UnknownOption,
};
use dhcproto::{Decodable as _, Decoder, Encodable as _, Encoder};
use landfall_boot_params::dracut_net::is_host_name;

use super::Identity;
use crate::advertisements::user_option::is_server_address;

/// Limits for the lists that a server sends. No network needs more. Each entry costs work
/// in the resolver.
const MOST_SERVERS: usize = 8;
const MOST_DOMAINS: usize = 6;

/// The options that the client always requests.
const WANTED: [OptionCode; 4] = [
    OptionCode::DomainNameServers,
    OptionCode::DomainSearchList,
    OptionCode::NtpServer,
    OptionCode::SolMaxRt,
];
/// Additional options that the client requests if it requests no address (RFC 8415,
/// 21.23 and 21.25).
const WANTED_WITHOUT_ADDRESS: [OptionCode; 2] =
    [OptionCode::InformationRefreshTime, OptionCode::InfMaxRt];

/// Flag S of RFC 4704, 4.1: the server may enter the name into the DNS.
const SERVER_UPDATES_DNS: u8 = 1;

/// A message from the client.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub kind: MessageType,
    pub transaction: [u8; 3],
    /// Time since the start of the exchange, in hundredths of a second.
    pub elapsed: u16,
    /// DUID of the server that the message is for; `None` means all servers.
    pub server: Option<&'a [u8]>,
    /// The address that the client requests, confirms, renews or declines.
    pub address: Option<Ipv6Addr>,
}

impl Request<'_> {
    /// Encodes the message. The error is the codec's.
    pub fn encode(
        &self,
        identity: &Identity,
        host_name: Option<&str>,
    ) -> Result<Vec<u8>, EncodeError> {
        let mut message = Message::new_with_id(self.kind, self.transaction);
        let options = message.opts_mut();
        options.insert(DhcpOption::ClientId(identity.duid.clone()));
        options.insert(DhcpOption::ElapsedTime(self.elapsed));
        if let Some(server) = self.server {
            options.insert(DhcpOption::ServerId(server.to_vec()));
        }
        if self.kind != MessageType::InformationRequest {
            options.insert(association(identity, self.address));
        }
        if self.kind == MessageType::Solicit {
            options.insert(DhcpOption::RapidCommit);
        }
        if !matches!(self.kind, MessageType::Confirm | MessageType::Decline) {
            let mut wanted = WANTED.to_vec();
            if self.kind == MessageType::InformationRequest {
                wanted.extend(WANTED_WITHOUT_ADDRESS);
            } else if let Some(name) = host_name {
                options.insert(full_name(name));
            }
            options.insert(DhcpOption::ORO(ORO { opts: wanted }));
        }
        let mut bytes = Vec::new();
        message.encode(&mut Encoder::new(&mut bytes))?;
        Ok(bytes)
    }
}

/// The identity association of the interface. All times are zero, so the server
/// chooses them.
fn association(identity: &Identity, address: Option<Ipv6Addr>) -> DhcpOption {
    let address = address.map(|addr| {
        DhcpOption::IAAddr(IAAddr {
            addr,
            preferred_life: 0,
            valid_life: 0,
            opts: DhcpOptions::new(),
        })
    });
    DhcpOption::IANA(IANA {
        id: identity.iaid,
        t1: 0,
        t2: 0,
        opts: address.into_iter().collect(),
    })
}

/// Encodes the name as labels. Only a fully qualified name ends with the root label
/// (RFC 4704, 4.2).
fn full_name(name: &str) -> DhcpOption {
    let mut value = vec![SERVER_UPDATES_DNS];
    for label in name.split('.') {
        // The cast is lossless: a label of a valid host name has at most 63 bytes.
        value.push(label.len() as u8);
        value.extend(label.as_bytes());
    }
    if name.contains('.') {
        value.push(0);
    }
    DhcpOption::Unknown(UnknownOption::new(OptionCode::ClientFqdn, value))
}

/// A server's answer to the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// True for a Reply, false for an Advertise.
    pub is_reply: bool,
    /// The server's DUID.
    pub server: Vec<u8>,
    /// The client prefers the server with the highest value.
    pub preference: u8,
    /// The Reply answers a Solicit directly.
    pub rapid_commit: bool,
    /// The server's status for the whole message.
    pub status: Status,
    /// The answer's data about the interface's address; `None` if there is none.
    pub association: Option<Association>,
    pub dns: Vec<Ipv6Addr>,
    pub search: Vec<String>,
    pub ntp: Vec<Ipv6Addr>,
    /// In seconds: when the client must ask for the information again.
    pub refresh: Option<u32>,
    /// In seconds: the longest pause between two messages of a search.
    pub longest_search: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// RFC 8415, table 3; 0 is success.
    pub code: u16,
    /// The server's explanation for people.
    pub text: String,
}

impl Status {
    pub const NO_ADDRESS: u16 = 2;
    pub const NO_BINDING: u16 = 3;
    pub const NOT_ON_LINK: u16 = 4;
}

/// What a server says about the addresses of the interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Association {
    /// Seconds until the client asks this server again (T1). If 0, the client chooses the
    /// time.
    pub renew: u32,
    /// Seconds until the client asks any server (T2); 0 lets the client choose.
    pub rebind: u32,
    /// The status of the whole association.
    pub status: Status,
    /// The addresses, each with its status.
    pub addresses: Vec<(Address, Status)>,
}

/// An address with its times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    pub address: Ipv6Addr,
    /// How long new connections may use the address as their source.
    pub preferred: u32,
    /// How long the address may be used at all.
    pub valid: u32,
}

impl Answer {
    /// Reads a payload. Returns `None` unless it answers this transaction of this
    /// client.
    pub fn parse(payload: &[u8], transaction: [u8; 3], identity: &Identity) -> Option<Answer> {
        let (header, options) = payload.split_first_chunk::<4>()?;
        let is_reply = match MessageType::from(header[0]) {
            MessageType::Reply => true,
            MessageType::Advertise => false,
            _ => return None,
        };
        if header[1..] != transaction {
            return None;
        }
        let mut answer = Answer {
            is_reply,
            ..Answer::default()
        };
        let mut for_us = false;
        for (code, value, whole) in each_option(options) {
            match code {
                OptionCode::ClientId => for_us = value == identity.duid,
                OptionCode::ServerId => answer.server = value.to_vec(),
                OptionCode::Preference => answer.preference = *value.first()?,
                OptionCode::RapidCommit => answer.rapid_commit = true,
                OptionCode::StatusCode => answer.status = status(value)?,
                OptionCode::IANA => {
                    if let Some(found) = association_of(value, identity.iaid) {
                        answer.association = Some(found);
                    }
                }
                OptionCode::InformationRefreshTime => answer.refresh = u32_at(value, 0),
                OptionCode::SolMaxRt | OptionCode::InfMaxRt => {
                    answer.longest_search = u32_at(value, 0);
                }
                OptionCode::DomainNameServers
                | OptionCode::DomainSearchList
                | OptionCode::NtpServer => answer.take_list(whole),
                _ => {}
            }
        }
        (for_us && !answer.server.is_empty()).then_some(answer)
    }

    fn take_list(&mut self, option: &[u8]) {
        match DhcpOption::decode(&mut Decoder::new(option)) {
            Ok(DhcpOption::DomainNameServers(list)) => self.dns = servers(list),
            Ok(DhcpOption::DomainSearchList(names)) => {
                let names = names.iter().map(ToString::to_string);
                self.search = names
                    .map(|name| name.trim_end_matches('.').to_owned())
                    .filter(|name| is_host_name(name))
                    .take(MOST_DOMAINS)
                    .collect();
            }
            Ok(DhcpOption::NtpServer(list)) => {
                // Skip names, because the agent would have to resolve them before it can
                // set the clock.
                let addresses = list.into_iter().filter_map(|entry| match entry {
                    NtpSuboption::ServerAddress(address) => Some(address),
                    NtpSuboption::MulticastAddress(_) | NtpSuboption::FQDN(_) => None,
                });
                self.ntp = servers(addresses);
            }
            _ => {}
        }
    }
}

fn servers(list: impl IntoIterator<Item = Ipv6Addr>) -> Vec<Ipv6Addr> {
    let usable = list.into_iter().filter(|a| is_server_address(*a));
    usable.take(MOST_SERVERS).collect()
}

/// Splits options into code, value and the whole option. The codec is not used for this,
/// because it stops at the first option that it cannot read. Also, dhcproto 0.15 panics
/// on a status (or vendor option, or authentication) that is too short.
fn each_option(mut bytes: &[u8]) -> impl Iterator<Item = (OptionCode, &[u8], &[u8])> {
    std::iter::from_fn(move || {
        let header = bytes.first_chunk::<4>()?;
        let code = u16::from_be_bytes([header[0], header[1]]);
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let whole = bytes.get(..4 + length)?;
        bytes = &bytes[4 + length..];
        Some((OptionCode::from(code), &whole[4..], whole))
    })
}

/// The association with this id. `None` if `value` has another id or is truncated, or if
/// its times contradict each other (RFC 8415, 21.4).
fn association_of(value: &[u8], id: u32) -> Option<Association> {
    let mut found = Association {
        renew: u32_at(value, 4)?,
        rebind: u32_at(value, 8)?,
        ..Association::default()
    };
    let contradicts = found.renew > found.rebind && found.rebind > 0;
    if u32_at(value, 0)? != id || contradicts {
        return None;
    }
    for (code, value, _) in each_option(&value[12..]) {
        match code {
            OptionCode::StatusCode => found.status = status(value)?,
            OptionCode::IAAddr => found.addresses.extend(address(value)),
            _ => {}
        }
    }
    Some(found)
}

fn address(value: &[u8]) -> Option<(Address, Status)> {
    let octets = value.first_chunk::<16>()?;
    let address = Address {
        address: Ipv6Addr::from(*octets),
        preferred: u32_at(value, 16)?,
        valid: u32_at(value, 20)?,
    };
    // RFC 8415, 21.6: the client discards an address whose preferred lifetime is longer
    // than its valid lifetime.
    if address.preferred > address.valid {
        return None;
    }
    let mut address_status = Status::default();
    for (code, value, _) in each_option(&value[24..]) {
        if code == OptionCode::StatusCode {
            address_status = status(value)?;
        }
    }
    Some((address, address_status))
}

fn status(value: &[u8]) -> Option<Status> {
    let (code, text) = value.split_first_chunk::<2>()?;
    let text = String::from_utf8_lossy(text);
    Some(Status {
        code: u16::from_be_bytes(*code),
        // The text becomes one short line for the console.
        text: text.chars().filter(|c| !c.is_control()).take(120).collect(),
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

#[cfg(test)]
pub(super) mod tests;
