//! Hardware addresses, and `BOOTIF=`, the address of the NIC that the machine
//! booted from.

use std::fmt;
use std::str::FromStr;

/// An Ethernet hardware address. Its text is lower case with colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

/// The text is not a hardware address. Correct it, for example to `52:54:00:12:34:56`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected six hexadecimal bytes joined by ':' or '-'")]
pub struct InvalidMac;

/// The hardware address of an InfiniBand port: flags, queue pair and GID. Its
/// text is lower case with colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InfinibandAddr(pub [u8; 20]);

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddr {
    type Err = InvalidMac;

    /// Accepts one or two hexadecimal digits per byte, and `:` or `-` between the
    /// bytes, but not both in one address.
    fn from_str(text: &str) -> Result<MacAddr, InvalidMac> {
        address_bytes(text).map(MacAddr)
    }
}

impl fmt::Display for InfinibandAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        f.write_str(&words.join(":"))
    }
}

impl FromStr for InfinibandAddr {
    type Err = InvalidMac;

    /// Accepts the same forms as [`MacAddr`], but with twenty bytes.
    fn from_str(text: &str) -> Result<InfinibandAddr, InvalidMac> {
        address_bytes(text).map(InfinibandAddr)
    }
}

fn address_bytes<const N: usize>(text: &str) -> Result<[u8; N], InvalidMac> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let mut bytes = [0; N];
    let mut words = text.split(separator);
    for byte in &mut bytes {
        let word = words.next().ok_or(InvalidMac)?;
        if word.is_empty() || word.len() > 2 || !word.bytes().all(|c| c.is_ascii_hexdigit()) {
            return Err(InvalidMac);
        }
        *byte = u8::from_str_radix(word, 16).map_err(|_| InvalidMac)?;
    }
    match words.next() {
        None => Ok(bytes),
        Some(_) => Err(InvalidMac),
    }
}

/// `BOOTIF=`: the NIC from which the boot loader loaded the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootInterface {
    pub mac: MacAddr,
    /// The value as written on the command line.
    pub text: String,
}

impl BootInterface {
    /// Reads both existing forms. iPXE and virtual media write `aa:bb:cc:dd:ee:ff`.
    /// pxelinux puts the ARP hardware type in front (`01-aa-bb-cc-dd-ee-ff`). Like
    /// NetworkManager, this also accepts `00` (undefined) as the type.
    pub fn parse(text: &str) -> Result<BootInterface, InvalidMac> {
        let mac = text.parse().or_else(|invalid| {
            ["01-", "01:", "00-", "00:"]
                .iter()
                .find_map(|kind| text.strip_prefix(kind))
                .ok_or(invalid)
                .and_then(str::parse)
        })?;
        Ok(BootInterface {
            mac,
            text: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_both_forms_of_bootif() {
        for text in [
            "52:54:00:AB:cd:01",
            "52-54-00-ab-cd-1",
            "01-52-54-00-ab-cd-01",
            "01:52:54:0:ab:cd:01",
            "00-52-54-00-ab-cd-01",
        ] {
            let found = BootInterface::parse(text).unwrap();
            assert_eq!(found.mac.to_string(), "52:54:00:ab:cd:01");
            assert_eq!(found.text, text);
        }
        for text in [
            "",
            "eth0",
            "52:54:00:ab:cd",
            "52:54:00:ab:cd:01:02:03",
            "02-52-54-00-ab-cd-01",
            "52:54-00:ab-cd:01",
            "52:54:00:ab:cd:+1",
            "52:54:00:ab:cd:001",
            "01-52-54-00-ab-cd-xx",
        ] {
            assert!(BootInterface::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn infiniband_text_and_back(bytes: [u8; 20]) {
            let address = InfinibandAddr(bytes);
            prop_assert_eq!(address.to_string().parse(), Ok(address));
            prop_assert!(address.to_string().parse::<MacAddr>().is_err());
        }

        #[test]
        fn text_and_back(bytes: [u8; 6]) {
            let mac = MacAddr(bytes);
            prop_assert_eq!(mac.to_string().parse(), Ok(mac));
            prop_assert_eq!(mac.to_string().replace(':', "-").parse(), Ok(mac));
        }
    }
}
