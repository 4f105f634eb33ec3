//! Parses one `ip=` into its fields.

use std::net::{IpAddr, Ipv4Addr};

use super::device::DeviceSpec;
use super::host_name::is_host_name;
use super::method::IpMethod;
use super::words::Words;
use crate::cloned_mac::ClonedMac;
use crate::cmdline::Token;
use crate::ip_prefix::{IpPrefix, longest_prefix};

/// The fields of one `ip=`, in any of its four forms:
///
/// ```text
/// ip=METHOD
/// ip=IFACE:METHOD[:[MTU][:MAC]]       (or [:DNS1[:DNS2]])
/// ip=CLIENT[/PREFIX]:[PEER]:[GATEWAY]:[MASK]:[HOSTNAME]:[IFACE]:[METHOD][:[MTU][:MAC]]
/// ip=CLIENT[/PREFIX]:[PEER]:[GATEWAY]:[MASK]:[HOSTNAME]:[IFACE]:[METHOD]:DNS1[:DNS2]
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpArgument {
    /// The argument as written on the command line.
    pub text: String,
    /// The device; `None` if the argument names no device. If the device cannot exist,
    /// only the host name of the argument takes effect.
    pub device: Option<DeviceSpec>,
    /// How the interface gets addresses in addition to the static one.
    pub method: IpMethod,
    /// The static address.
    pub address: Option<IpPrefix>,
    /// The default gateway, of either family.
    pub gateway: Option<IpAddr>,
    pub host_name: Option<String>,
    /// MTU of the link; 0: the default, even if an earlier argument sets another.
    pub mtu: Option<u32>,
    /// Hardware address to give to the device.
    pub set_mac: Option<ClonedMac>,
    /// At most two DNS servers.
    pub dns: Vec<IpAddr>,
}

/// Collects the warnings of one argument.
struct Complaints<'a> {
    argument: &'a str,
    list: &'a mut Vec<String>,
}

impl Complaints<'_> {
    fn add(&mut self, what: &str, found: &str) {
        let argument = self.argument;
        self.list
            .push(format!("{argument}: {what}, found {found:?}; ignored"));
    }
}

impl IpArgument {
    /// Parses the argument; `None` if nothing in it can be used.
    pub(super) fn parse(token: &Token, warnings: &mut Vec<String>) -> Option<IpArgument> {
        let mut complain = Complaints {
            argument: &token.text,
            list: warnings,
        };
        let mut words = Words::new(token.value_or_empty());
        if words.rest().is_empty() {
            return None;
        }
        let mut argument = IpArgument {
            text: token.text.clone(),
            device: None,
            method: IpMethod::Auto,
            address: None,
            gateway: None,
            host_name: None,
            mtu: None,
            set_mac: None,
            dns: Vec::new(),
        };
        let first = words.next(':');
        if words.rest().is_empty() {
            argument.method = method_or_auto(first, &mut complain);
        } else {
            let second = words.next(':');
            match IpMethod::parse(second).filter(|_| !second.is_empty()) {
                Some(method) => {
                    argument.device = device(first);
                    argument.method = method;
                }
                None => argument.read_long_form(first, second, &mut words, &mut complain)?,
            }
            argument.read_tail(&mut words, &mut complain);
        }
        let device = argument.device.as_ref();
        complain
            .list
            .extend(device.and_then(|device| device.warning(token)));
        let is_useless =
            device.is_some_and(DeviceSpec::cannot_exist) && argument.host_name.is_none();
        (!is_useless).then_some(argument)
    }

    fn read_long_form(
        &mut self,
        client: &str,
        peer: &str,
        words: &mut Words<'_>,
        complain: &mut Complaints<'_>,
    ) -> Option<()> {
        let mut client = Words::new(client);
        let address = client.next('/');
        let prefix = client.rest();
        let address = match address {
            "" => None,
            text => match text.parse::<IpAddr>() {
                Ok(address) => Some(address),
                Err(_) => {
                    complain.add(
                        "expected METHOD, INTERFACE:METHOD or ADDRESS:... with IPv6 in brackets",
                        text,
                    );
                    return None;
                }
            },
        };
        if !peer.is_empty() {
            complain.add("point-to-point peers are not supported", peer);
        }
        let gateway = words.next(':');
        let mask = words.next(':');
        let host_name = words.next(':');
        self.device = device(words.next(':'));
        self.method = method_or_auto(words.next(':'), complain);
        self.address = address.map(|address| with_length(address, prefix, mask, complain));
        if address.is_none() {
            for length in [prefix, mask].into_iter().filter(|text| !text.is_empty()) {
                complain.add("expected an address in front of a mask", length);
            }
        }
        match gateway.parse::<IpAddr>() {
            Ok(address) => self.gateway = Some(address).filter(|a| !a.is_unspecified()),
            Err(_) if gateway.is_empty() => {}
            Err(_) => complain.add("expected the gateway's IP address", gateway),
        }
        if is_host_name(host_name) {
            self.host_name = Some(host_name.to_owned());
        } else if !host_name.is_empty() {
            complain.add("expected a host name", host_name);
        }
        Some(())
    }

    /// Reads the fields after the method: DNS servers, or an MTU and a hardware
    /// address.
    fn read_tail(&mut self, words: &mut Words<'_>, complain: &mut Complaints<'_>) {
        let first = words.next(':');
        if let Ok(server) = first.parse() {
            self.dns.push(server);
            match words.next(':') {
                "" => {}
                text => match text.parse() {
                    Ok(server) => self.dns.push(server),
                    Err(_) => complain.add("expected the IP address of a DNS server", text),
                },
            }
            if !words.rest().is_empty() {
                complain.add("expected at most two DNS servers", words.rest());
            }
            return;
        }
        match first.parse() {
            Ok(mtu) => self.mtu = Some(mtu),
            Err(_) if first.is_empty() => {}
            Err(_) => complain.add("expected an MTU or the IP address of a DNS server", first),
        }
        // The hardware address is the last field, so its colons need no brackets.
        match words.rest() {
            "" => {}
            text => {
                self.set_mac = text.parse().ok();
                if self.set_mac.is_none() {
                    complain.add(
                        "expected a MAC address, preserve, permanent, random or stable",
                        text,
                    );
                }
            }
        }
    }
}

fn device(text: &str) -> Option<DeviceSpec> {
    (!text.is_empty()).then(|| DeviceSpec::parse(text))
}

fn method_or_auto(text: &str, complain: &mut Complaints<'_>) -> IpMethod {
    IpMethod::parse(text).unwrap_or_else(|| {
        complain.add(
            "expected a method such as dhcp or none (auto is used)",
            text,
        );
        IpMethod::Auto
    })
}

/// The address with its prefix length. A mask overrides the prefix length after the
/// address; if the mask is not valid, the default length applies.
fn with_length(
    address: IpAddr,
    prefix: &str,
    mask: &str,
    complain: &mut Complaints<'_>,
) -> IpPrefix {
    let longest = longest_prefix(address.is_ipv4());
    let decimal = |text: &str| text.parse::<u8>().ok().filter(|bits| *bits <= longest);
    let found = match (mask, prefix) {
        ("", "") => None,
        ("", prefix) => {
            let found = decimal(prefix);
            if found.is_none() {
                complain.add("expected a prefix length (the default is used)", prefix);
            }
            found
        }
        (mask, prefix) => {
            let dotted = mask.parse::<Ipv4Addr>().ok().filter(|_| address.is_ipv4());
            let found = match dotted {
                Some(dotted) => Some(mask_length(dotted, complain)),
                None => decimal(mask),
            };
            if found.is_none() {
                complain.add(
                    "expected a mask or prefix length (the default is used)",
                    mask,
                );
            } else if !prefix.is_empty() && decimal(prefix) != found {
                complain.add("the mask overrides the prefix length", prefix);
            }
            found
        }
    };
    match found {
        Some(length) => IpPrefix { address, length },
        None => IpPrefix::with_default_length(address),
    }
}

/// The prefix length: the position of the last 1 bit of the mask. Any 0 bits before it
/// count as 1, as in NetworkManager.
fn mask_length(mask: Ipv4Addr, complain: &mut Complaints<'_>) -> u8 {
    let length = (32 - mask.to_bits().trailing_zeros()) as u8;
    if mask.to_bits().leading_ones() != u32::from(length) {
        let argument = complain.argument;
        complain.list.push(format!(
            "{argument}: expected a mask whose one bits come first, found {mask}; \
             /{length} is used"
        ));
    }
    length
}
