//! Fuzz functions for messages from unauthenticated hosts on the link.

use std::net::Ipv6Addr;
use std::time::Duration;

use landfall_network::advertisements::dns::AdvertisedDns;
use landfall_network::advertisements::user_option;
use landfall_network::dhcp::lease::Lease;
use landfall_network::dhcp::message::Answer;
use landfall_network::dhcp::{conflict, datagram};
use landfall_network::dhcp6;
use landfall_network_plan::MacAddr;

/// Reads a packet from the wire (IP, ARP), then a DHCP message, then a lease.
pub fn dhcp(data: &[u8]) {
    let _ = datagram::payload(data);
    let _ = conflict::claimant(data, [192, 0, 2, 1].into());
    // Take the transaction ID and the hardware address from the input itself. They only
    // identify the client that the answer is for.
    let transaction = data.get(4..8).and_then(|bytes| bytes.try_into().ok());
    let mac = data.get(28..34).and_then(|bytes| bytes.try_into().ok());
    let (Some(transaction), Some(mac)) = (transaction, mac) else {
        return;
    };
    let transaction = u32::from_be_bytes(transaction);
    if let Some(answer) = Answer::parse(data, transaction, MacAddr(mac))
        && let Ok(lease) = Lease::from_answer(&answer)
    {
        let _ = lease.gateway();
        assert!(lease.renew_after <= lease.rebind_after);
        assert!(lease.lifetime.is_none_or(|time| lease.rebind_after < time));
    }
}

/// Reads a DHCPv6 message that any host may send to the client's port. Transaction ID
/// and identity come from the input itself: they only identify the client that the
/// answer is for.
pub fn dhcpv6(data: &[u8]) {
    let Some((mac, message)) = data.split_first_chunk::<6>() else {
        return;
    };
    let identity = dhcp6::Identity::of(MacAddr(*mac));
    let transaction = message.get(1..4).and_then(|bytes| bytes.try_into().ok());
    let Some(transaction) = transaction else {
        return;
    };
    // A server repeats the client's identity in its answer, so it is inserted before
    // the options.
    let (head, options) = message.split_at(4);
    let duid = &identity.duid;
    let client = [&[0, 1, 0, duid.len() as u8], duid.as_slice()].concat();
    let message = [head, &client, options].concat();
    let Some(answer) = dhcp6::message::Answer::parse(&message, transaction, &identity) else {
        return;
    };
    if let Some(lease) = dhcp6::Lease::of_address(&answer, Ipv6Addr::LOCALHOST) {
        let end = lease.address.and_then(|address| address.valid);
        let later = |time: Option<Duration>| time.unwrap_or(Duration::MAX);
        assert!(
            lease.renew_after.is_none() || later(lease.renew_after) <= later(lease.rebind_after)
        );
        assert!(end.is_none() || later(lease.rebind_after) < later(end));
    }
}

/// Reads options of router advertisements that the kernel passes on.
pub fn nd_user_option(data: &[u8]) {
    for option in user_option::read(data) {
        if let user_option::Content::Domains(names) = &option.content {
            assert!(names.iter().all(|name| !name.contains(char::is_whitespace)));
        }
        let mut dns = AdvertisedDns::default();
        dns.take(option, tokio::time::Instant::now());
        assert!(dns.servers().count() + dns.domains().count() <= 8);
    }
}
