//! Does somebody else have a static IPv4 address?
//!
//! NetworkManager 1.59 asks for 200 ms before it uses an address, dracut for up
//! to 2 s. Here the address is used meanwhile: nearly always nobody has it, and
//! these 200 ms would be a tenth of the time from the kernel's start to the
//! first lookup. The question goes out before the first packet from the
//! address, and who has it answers within a millisecond or two, which is sooner
//! than a connection can be made with it. Then the address is taken back, and
//! asked for again now and then: machines that are in the way get moved.
//!
//! For IPv6 the kernel does the same (see `ipv6_sysctl`).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use landfall_network_plan::{IpPrefix, MacAddr};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::dhcp::conflict::{self, Asker};
use super::nic::ClientTag;
use crate::backoff::between;

/// Until somebody who has moved the other machine sees it work. Not sooner:
/// two that ask for the same address at the same time both step back.
pub(super) const PAUSE: Duration = Duration::from_secs(20);

/// What has been found out about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This machine has it.
    Taken(MacAddr),
    /// Nobody has it any more.
    Free,
}

/// Asks who has an address that is used from now on. Tells of another machine,
/// and goes on until that one is gone. Says nothing where nobody has it.
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
        // Unheard: the task that would use it has ended.
        let _ = verdicts.send((tag, address, Verdict::Free)).await;
    }
}

/// A link that cannot be asked has nobody on it.
async fn owner(asker: &Asker, address: Ipv4Addr) -> Option<MacAddr> {
    conflict::owner(asker, address)
        .await
        .unwrap_or_else(|error| {
            tracing::debug!("asking who has {address}: {error}");
            None
        })
}
