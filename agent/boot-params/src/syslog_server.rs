//! The syslog server that gets the log lines: `tcp://HOST:PORT`, `udp://...`, `tls://...`.

use std::net::Ipv6Addr;

use crate::argument_value::{ArgumentValue, is_host};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogServer {
    pub transport: SyslogTransport,
    /// A name or an address, without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyslogTransport {
    /// RFC 5426
    Udp,
    /// RFC 6587, with octet counting
    Tcp,
    /// RFC 5425
    Tls,
}

impl SyslogTransport {
    const ALL: [Self; 3] = [Self::Udp, Self::Tcp, Self::Tls];

    pub fn scheme(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }

    /// The port that servers use by default.
    pub fn port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 514,
            Self::Tls => 6514,
        }
    }
}

impl ArgumentValue for SyslogServer {
    const EXPECTED: &'static str =
        "udp://HOST, tcp://HOST or tls://HOST, with :PORT if it is not 514 (tls: 6514)";

    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let mut transports = SyslogTransport::ALL.into_iter();
        let transport = transports.find(|transport| transport.scheme() == scheme)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']')?;
                host.parse::<Ipv6Addr>().ok()?;
                match rest {
                    "" => (host, None),
                    rest => (host, Some(rest.strip_prefix(':')?)),
                }
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0)?,
            None => transport.port(),
        };
        (!host.is_empty() && is_host(host)).then(|| Self {
            transport,
            host: host.to_owned(),
            port,
        })
    }

    fn to_text(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        format!("{}://{host}:{}", self.transport.scheme(), self.port)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_server_has_a_transport_a_host_and_a_port() {
        for (text, expected) in [
            ("udp://192.0.2.5", Some("udp://192.0.2.5:514")),
            (
                "tcp://log.example.org:1514",
                Some("tcp://log.example.org:1514"),
            ),
            ("tls://log.example.org/", Some("tls://log.example.org:6514")),
            ("tcp://[2001:db8::5]", Some("tcp://[2001:db8::5]:514")),
            ("tcp://[2001:db8::5]:99", Some("tcp://[2001:db8::5]:99")),
            ("tcp://2001:db8::5", None),
            ("tcp://[host]:99", None),
            ("tcp://host:0", None),
            ("tcp://host:70000", None),
            ("tcp://user@host", None),
            ("tcp://", None),
            ("http://host", None),
            ("host", None),
        ] {
            let server = SyslogServer::parse(text);
            assert_eq!(server.map(|it| it.to_text()).as_deref(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_written_server_is_read_back(text in "(udp|tcp|tls)://[a-z0-9.:\\[\\]/]{1,20}") {
            if let Some(server) = SyslogServer::parse(&text) {
                prop_assert_eq!(SyslogServer::parse(&server.to_text()), Some(server));
            }
        }
    }
}
