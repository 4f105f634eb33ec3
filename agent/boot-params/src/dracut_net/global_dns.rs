//! Parses `rd.net.dns=`.

use std::net::IpAddr;

use super::words::without_brackets;

/// The only port on which a resolver queries servers.
const PORT: &str = "53";

/// Reads a server: `ADDRESS[#NAME]` or `dns+udp://ADDRESS[:53]`. `dns+tls://` is an
/// error, since the ramdisk's resolver does not encrypt. The error says what was
/// expected.
pub(super) fn parse(text: &str) -> Result<IpAddr, &'static str> {
    const EXPECTED: &str = "the IP address of a DNS server";
    if text.starts_with("dns+tls://") {
        return Err("a server without TLS");
    }
    let Some(rest) = text.strip_prefix("dns+udp://") else {
        let (address, name) = text.split_once('#').unwrap_or((text, "-"));
        let address = address.parse().map_err(|_| EXPECTED)?;
        return if name.is_empty() {
            Err("a name after the #")
        } else {
            // With a name, NetworkManager may use TLS, but it does not require it.
            Ok(address)
        };
    };
    if let Ok(address) = without_brackets(rest).parse() {
        return Ok(address);
    }
    match rest.rsplit_once(':') {
        Some((address, PORT)) => without_brackets(address).parse().map_err(|_| EXPECTED),
        Some((address, _)) if without_brackets(address).parse::<IpAddr>().is_ok() => {
            Err("a server at port 53")
        }
        _ => Err(EXPECTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_uris() {
        for (text, expected) in [
            ("192.0.2.53", Some("192.0.2.53")),
            ("2001:db8::53", Some("2001:db8::53")),
            ("192.0.2.53#dns.example", Some("192.0.2.53")),
            ("192.0.2.53#", None),
            ("dns+udp://192.0.2.53", Some("192.0.2.53")),
            ("dns+udp://192.0.2.53:53", Some("192.0.2.53")),
            ("dns+udp://192.0.2.53:5353", None),
            ("dns+udp://[2001:db8::53]:53", Some("2001:db8::53")),
            ("dns+udp://[2001:db8::53]", Some("2001:db8::53")),
            ("dns+tls://192.0.2.53", None),
            ("dns.example", None),
            ("", None),
        ] {
            let found = parse(text).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }
}
