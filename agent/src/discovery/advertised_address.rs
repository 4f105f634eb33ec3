//! The address under which Ironic can call this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The source address that the kernel's routes choose towards `service`: what
/// `ip route get` says, asked by connecting a UDP socket, which sends nothing.
///
/// # Errors
/// No route, or only a link-local address, which another host cannot name.
pub fn source_address_towards(service: SocketAddr) -> Result<IpAddr, String> {
    let any: IpAddr = match service {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((any, 0))
        .and_then(|socket| {
            socket.connect(service)?;
            socket.local_addr()
        })
        .map_err(|error| format!("no route to {}: {error}", service.ip()))?
        .ip();
    let link_local = match source {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    if link_local {
        return Err(format!(
            "the route to {} leaves from the link-local address {source}",
            service.ip()
        ));
    }
    Ok(source)
}

/// The host of the callback URL: as the operator gave it, else our address on
/// the way to Ironic.
pub fn advertised_host(given: Option<&str>, source: IpAddr) -> String {
    match given {
        Some(host) => host.parse().map_or_else(|_| host.to_owned(), in_url),
        None => in_url(source),
    }
}

/// An address as a URL has it: IPv6 in brackets.
fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_from_loopback() {
        let service = SocketAddr::from((Ipv4Addr::LOCALHOST, 6385));
        assert_eq!(
            source_address_towards(service),
            Ok(IpAddr::V4(Ipv4Addr::LOCALHOST))
        );
    }

    #[test]
    fn a_host_is_fit_for_a_url() {
        let source = IpAddr::V6(Ipv6Addr::LOCALHOST);
        for (given, host) in [
            (None, "[::1]"),
            (Some("192.0.2.7"), "192.0.2.7"),
            (Some("2001:db8::7"), "[2001:db8::7]"),
            (Some("agent.example"), "agent.example"),
        ] {
            assert_eq!(advertised_host(given, source), host);
        }
    }
}
