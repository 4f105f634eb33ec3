//! Checks whether another machine has a static IPv4 address.
//!
//! NetworkManager 1.59 checks for 200 ms before it uses an address, and dracut for up to
//! 2 s. Here the address is used during the check, because a conflict is rare, and 200 ms
//! would be a tenth of the time from the kernel's start to the first lookup. The agent
//! sends the probe before the first packet from the address. If another machine has the
//! address, it answers within 1 to 2 ms, before a connection can be made. The agent then
//! removes the address and checks again from time to time, because the other machine may
//! be moved.
//!
//! For IPv6 the kernel checks in the same way (see `ipv6_sysctl`).

use std::net::IpAddr;
use std::time::Duration;

use landfall_network_plan::{IpPrefix, MacAddr};
use landfall_sys::backoff::between;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::client_tag::ClientTag;
use super::dhcp::conflict::{self, ArpProber};

/// The average pause between two checks of an address that another machine has. After an
/// operator has moved that machine, the address is usable about this much later. With a
/// shorter pause, two machines could probe for the same address at the same time and both
/// give it up.
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
    prober: ArpProber,
    address: IpPrefix,
    tag: ClientTag,
    verdicts: mpsc::Sender<(ClientTag, IpPrefix, Verdict)>,
) {
    let IpAddr::V4(ip) = address.address else {
        return;
    };
    let mut taken_by = None;
    loop {
        match conflict::owner(&prober, ip).await {
            Ok(Some(owner)) if taken_by != Some(owner) => {
                taken_by = Some(owner);
                let verdict = (tag, address, Verdict::Taken(owner));
                if verdicts.send(verdict).await.is_err() {
                    return;
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => break,
            // The link is down. When the carrier returns, a new check starts and this
            // check ends. Until then, the other machine still counts as the owner.
            Err(error) => {
                tracing::debug!("cannot ask who has {ip}: {error}");
                if taken_by.is_none() {
                    return;
                }
            }
        }
        sleep(PAUSE.mul_f64(between(0.75, 1.25))).await;
    }
    if taken_by.is_some() {
        // An error means that the network task has ended.
        let _ = verdicts.send((tag, address, Verdict::Free)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{ip, on_a_machine};

    /// If the NIC is off, no answer arrives, even from a machine that has the address.
    #[test]
    fn a_link_that_cannot_be_probed_frees_no_address() {
        on_a_machine(async |lab| {
            lab.plug_in_up(0, &["192.0.2.10/24"]);
            ip("link set eth0 up");
            let index = nix::net::if_::if_nametoindex("eth0").unwrap();
            let prober = ArpProber {
                index,
                mac: MacAddr([0x52, 0x54, 0, 0, 0, 0]),
                own: Vec::new(),
            };
            let (sender, mut verdicts) = mpsc::channel(4);
            let address = "192.0.2.10/24".parse().unwrap();
            tokio::spawn(ask(prober, address, (index, 1), sender));
            let limit = Duration::from_secs(40);
            let first = tokio::time::timeout(limit, verdicts.recv()).await;
            let (_, _, verdict) = first.unwrap().unwrap();
            assert!(matches!(verdict, Verdict::Taken(_)), "{verdict:?}");
            ip("link set eth0 down");
            // No machine can answer now, so the test may skip the real time.
            tokio::time::pause();
            let second = tokio::time::timeout(PAUSE * 5, verdicts.recv()).await;
            assert!(second.is_err(), "{second:?}");
        });
    }
}
