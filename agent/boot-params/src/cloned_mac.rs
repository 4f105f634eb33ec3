//! The hardware address that the agent gives to an interface.

use std::fmt;
use std::str::FromStr;

use crate::mac::{InvalidMac, MacAddr};

/// Values of NetworkManager's property `cloned-mac-address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClonedMac {
    Address(MacAddr),
    /// The current address of the device.
    Preserve,
    /// The permanent address of the device.
    Permanent,
    Random,
    /// An address computed from the name of the profile.
    Stable,
}

/// The values that are words instead of addresses.
const WORDS: [(&str, ClonedMac); 4] = [
    ("preserve", ClonedMac::Preserve),
    ("permanent", ClonedMac::Permanent),
    ("random", ClonedMac::Random),
    ("stable", ClonedMac::Stable),
];

impl ClonedMac {
    /// The address, if it is known in advance.
    pub fn address(self) -> Option<MacAddr> {
        match self {
            ClonedMac::Address(address) => Some(address),
            _ => None,
        }
    }
}

impl FromStr for ClonedMac {
    type Err = InvalidMac;

    fn from_str(text: &str) -> Result<ClonedMac, InvalidMac> {
        match WORDS.iter().find(|(word, _)| *word == text) {
            Some((_, cloned)) => Ok(*cloned),
            None => text.parse().map(ClonedMac::Address),
        }
    }
}

impl fmt::Display for ClonedMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClonedMac::Address(address) => address.fmt(f),
            other => {
                let word = WORDS.iter().find(|(_, cloned)| cloned == other);
                f.write_str(word.map_or("", |(word, _)| word))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in [
            "52:54:00:00:00:09",
            "preserve",
            "permanent",
            "random",
            "stable",
        ] {
            let cloned: ClonedMac = text.parse().unwrap();
            assert_eq!(cloned.to_string(), text);
            assert_eq!(cloned.address().is_some(), text.contains(':'));
        }
        for text in ["", "Random", "stable-ssid", "52:54:00:00:00"] {
            assert!(text.parse::<ClonedMac>().is_err(), "{text:?}");
        }
    }
}
