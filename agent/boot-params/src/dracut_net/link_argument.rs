//! Parses `rd.ethtool=` and `ib.pkey=`.

use super::device::{DeviceSpec, is_interface_name};
use super::switch;
use super::virtual_argument::warn_of_more_fields;
use super::words::Words;
use crate::cmdline::Token;

/// `rd.ethtool=INTERFACE:[AUTONEG]:[SPEED]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthtoolArgument {
    /// The argument as written on the command line.
    pub text: String,
    pub device: DeviceSpec,
    /// Whether the two ends of the link negotiate their speed, if given. Never false
    /// without a speed.
    pub autoneg: Option<bool>,
    /// Mbit/s, full duplex; never zero.
    pub speed: Option<u32>,
}

impl EthtoolArgument {
    pub(super) fn parse(token: &Token, warnings: &mut Vec<String>) -> Option<EthtoolArgument> {
        let text = &token.text;
        let mut words = Words::new(token.value_or_empty());
        let device = words.next(':');
        if device.is_empty() {
            warnings.push(token.ignored("expected INTERFACE:[AUTONEG]:[SPEED]"));
            return None;
        }
        let device = DeviceSpec::parse_reporting(device, token, warnings)?;
        if let DeviceSpec::Infiniband(mac) = device {
            warnings.push(token.ignored(format_args!(
                "expected an Ethernet device, found the InfiniBand port {mac}"
            )));
            return None;
        }
        let autoneg = words.next(':');
        let speed = words.next(':');
        let mut argument = EthtoolArgument {
            text: text.clone(),
            device,
            autoneg: switch::parse(autoneg),
            speed: speed.trim().parse().ok().filter(|speed| *speed != 0),
        };
        if argument.autoneg.is_none() && !autoneg.is_empty() {
            warnings.push(token.expected("on or off for the autonegotiation", autoneg));
        }
        if argument.speed.is_none() && !matches!(speed, "" | "0") {
            warnings.push(token.expected("a speed in Mbit/s", speed));
        }
        if argument.speed.is_none() && argument.autoneg.take_if(|on| !*on).is_some() {
            warnings.push(format!(
                "{text}: autonegotiation cannot be off without a speed; the driver's setting is kept"
            ));
        }
        warn_of_more_fields(token, &words, warnings);
        Some(argument)
    }
}

/// `ib.pkey=PARENT.KEY`: a partition of an InfiniBand device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionArgument {
    /// The argument as written on the command line.
    pub text: String,
    /// The value of the argument. Other arguments use it as the name of the
    /// partition.
    pub name: String,
    /// The InfiniBand device that the partition belongs to.
    pub parent: String,
    pub key: u16,
}

impl PartitionArgument {
    pub(super) fn parse(token: &Token, warnings: &mut Vec<String>) -> Option<PartitionArgument> {
        let mut words = Words::new(token.value_or_empty());
        let name = words.next(':');
        let found = name.split_once('.').and_then(|(parent, key)| {
            let digits = key.strip_prefix("0x").unwrap_or(key);
            let is_key = digits.bytes().all(|c| c.is_ascii_hexdigit());
            let key = u16::from_str_radix(digits, 16).ok().filter(|_| is_key)?;
            // The kernel refuses a key whose low 15 bits are zero. The highest bit
            // is the type of membership (InfiniBand 1.5, 10.9.1.2).
            let key = Some(key).filter(|key| key & 0x7fff != 0)?;
            (is_interface_name(parent) && is_interface_name(name)).then_some((parent, key))
        });
        let Some((parent, key)) = found else {
            warnings.push(token.ignored(
                "expected PARENT.KEY, with a hexadecimal key from 1 to ffff, but not 8000",
            ));
            return None;
        };
        warn_of_more_fields(token, &words, warnings);
        Some(PartitionArgument {
            text: token.text.clone(),
            name: name.to_owned(),
            parent: parent.to_owned(),
            key,
        })
    }
}
