//! The addresses of the network interfaces, as getifaddrs(3) lists them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

/// Returns the IPv4 and IPv6 addresses of each interface, with their prefix lengths in
/// bits (0 if the kernel gives no netmask). The key is the name of the interface. The
/// addresses of an interface are in the kernel's order. Empty if getifaddrs(3) fails.
pub fn interface_addresses() -> BTreeMap<String, Vec<(IpAddr, u32)>> {
    let mut found: BTreeMap<String, Vec<(IpAddr, u32)>> = BTreeMap::new();
    for entry in getifaddrs().into_iter().flatten() {
        if let Some(address) = entry.address.as_ref().and_then(ip) {
            let mask = entry.netmask.as_ref().and_then(ip);
            let length = mask.map_or(0, |mask| match mask {
                IpAddr::V4(mask) => mask.to_bits().count_ones(),
                IpAddr::V6(mask) => mask.to_bits().count_ones(),
            });
            let of_interface = found.entry(entry.interface_name).or_default();
            of_interface.push((address, length));
        }
    }
    found
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}
