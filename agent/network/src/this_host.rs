//! Finds out which of the embedded hosts this machine is, by the MAC addresses of its
//! NICs.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use landfall_devices::devices_settled::DevicesSettled;
use landfall_network_plan::{Embedded, EmbeddedHosts, MacAddr};
use tokio::time::{Instant, sleep_until};

use super::links::{Link, LinkEvent, LinkKind, LinkWatch};

/// How long the agent waits for a NIC that identifies the host. After this time it
/// uses the next source of the network configuration.
const LIMIT: Duration = Duration::from_secs(30);
/// The time limit while the machine has no NIC. It is longer than [`LIMIT`], because
/// without a NIC no other source gives a network either. NetworkManager waits for a
/// device for the same time.
const FIRST_NIC_LIMIT: Duration = Duration::from_secs(60);
/// How long to wait for another NIC after the last NIC has appeared and the last driver
/// is loaded, because USB and firmware do not report that they are done.
const QUIET: Duration = Duration::from_secs(3);
/// The wait is logged only if it takes longer than this.
const LOG_AFTER: Duration = Duration::from_secs(2);

/// The name and the hardware addresses of each NIC, by its index.
type Nics = BTreeMap<u32, (String, Vec<MacAddr>)>;

/// Finds the embedded host that this machine is. The search ends with the first NIC that
/// belongs to a host. If any host has root device hints, the search also waits until the
/// drivers have found the other NICs. It has a time limit, because no event shows that no
/// further NIC will appear. If no host lists a MAC address, there is no search.
pub async fn this_host(hosts: &EmbeddedHosts, settled: DevicesSettled) -> Embedded {
    let only_one_question = hosts.hosts.iter().all(|host| host.macs.is_empty());
    if only_one_question {
        return hosts.decide(&[]);
    }
    let mut nics = Nics::new();
    if let Err(error) = look(hosts, settled, &mut nics).await {
        tracing::error!(
            "cannot get all NICs from the kernel: {error}; only the MAC addresses seen so far can identify this host"
        );
    }
    let nics: Vec<_> = nics.into_values().collect();
    hosts.decide(&nics)
}

/// Collects NICs until one of them identifies the host, or until the time limit.
async fn look(
    hosts: &EmbeddedHosts,
    mut settled: DevicesSettled,
    nics: &mut Nics,
) -> io::Result<()> {
    let start = Instant::now();
    let mut last_news = start;
    let mut is_settled = settled.borrow_and_update().is_some();
    let mut logged = false;
    loop {
        let (mut watch, snapshot) = LinkWatch::open().await?;
        nics.clear();
        for link in snapshot.links {
            add(nics, link);
        }
        loop {
            let macs: Vec<MacAddr> = nics.values().flat_map(|(_, macs)| macs).copied().collect();
            if hosts.with_mac(&macs).is_some() && (is_settled || !hosts.have_hints()) {
                return Ok(());
            }
            let limit = if nics.is_empty() {
                FIRST_NIC_LIMIT
            } else {
                LIMIT
            };
            let mut end = start + limit;
            if is_settled && !nics.is_empty() {
                end = end.min(last_news + QUIET);
            }
            let wake = if logged {
                end
            } else {
                end.min(start + LOG_AFTER)
            };
            tokio::select! {
                event = watch.next() => match event {
                    Some(LinkEvent::Link(link)) => {
                        if add(nics, link) {
                            last_news = Instant::now();
                        }
                    }
                    Some(LinkEvent::LinkGone(index)) => drop(nics.remove(&index)),
                    Some(_) => {}
                    // Events were lost: read the list of all NICs again.
                    None => break,
                },
                changed = settled.changed(), if !is_settled => {
                    // If the sender is gone, no further change will come.
                    is_settled = changed.is_err() || settled.borrow().is_some();
                    last_news = Instant::now();
                }
                () = sleep_until(wake) => {
                    if wake == end {
                        return Ok(());
                    }
                    logged = true;
                    let count = hosts.hosts.len();
                    let limit = limit.as_secs();
                    tracing::info!(
                        "waiting for a NIC of one of the {count} hosts in the ramdisk, at most {limit} s"
                    );
                }
            }
        }
    }
}

/// Returns true if the NIC is new.
fn add(nics: &mut Nics, link: Link) -> bool {
    if link.kind != LinkKind::Nic {
        return false;
    }
    let macs = link.macs();
    nics.insert(link.index, (link.name, macs)).is_none()
}

#[cfg(test)]
mod tests {
    use landfall_network_plan::{Document, EmbeddedHost, Metal3Hints};
    use tokio::sync::watch;

    use super::*;
    use crate::lab::{ip, on_a_machine};

    fn hosts() -> EmbeddedHosts {
        let host = |number: u8| EmbeddedHost {
            host_name: Some(format!("node{number}")),
            macs: vec![MacAddr([0x52, 0x54, 0, 0, 1, number])],
            nics: BTreeMap::new(),
            root_device_hints: None,
            document: Document::None,
        };
        EmbeddedHosts {
            hosts: (0..50).map(host).collect(),
            ..EmbeddedHosts::default()
        }
    }

    fn name(found: &Embedded) -> Option<&str> {
        found.host.as_ref()?.host_name.as_deref()
    }

    #[test]
    fn the_nic_that_identifies_the_host_may_appear_late() {
        on_a_machine(async |lab| {
            lab.plug_in(0);
            let (_settled, receiver) = watch::channel(None);
            let search = hosts();
            let begin = Instant::now();
            let found = tokio::join!(this_host(&search, receiver), async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                ip("link add late0 type veth peer name late1");
                ip("link set late0 address 52:54:00:00:01:07");
            });
            assert_eq!(name(&found.0), Some("node7"));
            assert_eq!(found.0.faults, [""; 0]);
            assert!(begin.elapsed() < LOG_AFTER, "it was not waited for longer");
        });
    }

    #[test]
    fn a_machine_that_is_none_of_them_goes_on_when_no_nic_comes_any_more() {
        on_a_machine(async |lab| {
            lab.plug_in(0);
            let (_settled, receiver) = watch::channel(Some(std::time::Instant::now()));
            let begin = Instant::now();
            let found = this_host(&hosts(), receiver).await;
            assert_eq!(name(&found), None);
            assert!(
                found.faults[0].contains("none of the 50 is for this machine (its NICs: eth0 "),
                "{:?}",
                found.faults
            );
            let took = begin.elapsed();
            assert!(took >= QUIET && took < LIMIT, "{took:?}");
        });
    }

    #[tokio::test]
    async fn a_plan_for_every_machine_waits_for_no_nic() {
        let mut one = hosts();
        one.hosts.truncate(1);
        one.hosts[0].macs.clear();
        let (_settled, receiver) = watch::channel(None);
        let found = this_host(&one, receiver).await;
        assert_eq!(name(&found), Some("node0"));
    }
    #[test]
    fn with_hints_the_nic_of_another_host_counts_as_well() {
        on_a_machine(async |lab| {
            lab.plug_in(0);
            ip("link add early0 type veth peer name early1");
            ip("link set early0 address 52:54:00:00:01:07");
            let (settled, receiver) = watch::channel(None);
            let mut search = hosts();
            let hints = serde_json::json!({"serialNumber": "S1"});
            search.hosts[7].root_device_hints = Metal3Hints::from_json(&hints).unwrap();
            let found = tokio::join!(this_host(&search, receiver), async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                ip("link add late0 type veth peer name late1");
                ip("link set late0 address 52:54:00:00:01:08");
                tokio::time::sleep(Duration::from_millis(200)).await;
                settled.send_replace(Some(std::time::Instant::now()));
            });
            let error = found.0.root_device_hints().unwrap_err();
            assert!(error.to_string().contains("different hints"), "{error}");
        });
    }
}
