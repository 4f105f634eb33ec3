//! Checks whether another machine has a static IPv4 address.
//!
//! NetworkManager 1.59 checks for 200 ms before it uses an address, and dracut for
//! up to 2 s. Here the address is used during the check: there is rarely a
//! conflict, and 200 ms would be a tenth of the time from the kernel's start to the
//! first lookup. The probe goes out before the first packet from the address. The
//! other machine answers within a millisecond or two, sooner than a connection can
//! be made. The agent then removes the address and checks again from time to time,
//! because the other machine may be moved.
//!
//! For IPv6 the kernel does the same (see `ipv6_sysctl`).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use landfall_network_plan::{IpPrefix, MacAddr};
use landfall_sys::backoff::between;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::client_tag::ClientTag;
use super::dhcp::conflict::{self, Asker};

/// The pause between two checks of an address that another machine has. An
/// operator who has moved that machine sees the effect after this time at the
/// latest. A shorter pause could make two machines probe for the same address
/// at the same time, and both would give it up.
pub(super) const PAUSE: Duration = Duration::from_secs(20);

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The machine with this hardware address has the address that was checked.
    Taken(MacAddr),
    /// No other machine has the address any more.
    Free,
}

/// Checks by ARP whether another machine has this address, which the agent already
/// uses. On a conflict it sends [`Verdict::Taken`], repeats the check until the
/// other machine is gone, then sends [`Verdict::Free`]. Without a conflict it sends
/// nothing.
pub(super) async fn ask(
    asker: Asker,
    address: IpPrefix,
    tag: ClientTag,
    verdicts: mpsc::Sender<(ClientTag, IpPrefix, Verdict)>,
) {
    let IpAddr::V4(ip) = address.address else {
        return;
    };
    let mut taken_by = None;
    while let Some(owner) = owner(&asker, ip).await {
        if taken_by != Some(owner) {
            taken_by = Some(owner);
            let verdict = (tag, address, Verdict::Taken(owner));
            if verdicts.send(verdict).await.is_err() {
                return;
            }
        }
        sleep(PAUSE.mul_f64(between(0.75, 1.25))).await;
    }
    if taken_by.is_some() {
        // An error means that the network task has ended.
        let _ = verdicts.send((tag, address, Verdict::Free)).await;
    }
}

/// Returns the other machine that has the address. Returns `None` also if the
/// link cannot be probed.
async fn owner(asker: &Asker, address: Ipv4Addr) -> Option<MacAddr> {
    conflict::owner(asker, address)
        .await
        .unwrap_or_else(|error| {
            tracing::debug!("cannot ask who has {address}: {error}");
            None
        })
}
