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
}
