//! The inspection stage: decides where to send the inventory and what to wait for, and
//! handles the answer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use landfall_boot_params::BootParams;
use landfall_boot_params::argument_value::ServiceUrls;
use landfall_devices::driver_faults::{self, Purpose};
use landfall_inventory::inspection::{self, Circumstances};
use landfall_inventory::report_types::Disk;
use landfall_inventory::{disks, lldp};
use landfall_ironic::{NotTaken, Retry, post_inventory};
use landfall_network::{NetworkState, SwitchVlans, WaitFor};
use landfall_network_plan::needs_lldp;
use landfall_report::failure::split_remedy;
use landfall_sys::system_path::SystemPath;
use tokio::sync::{oneshot, watch};

use super::Boot;
use super::search::FAR_ADDRESS_LIMIT;
use crate::commands;
use crate::mdns_question::{IRONIC, question};

/// The mDNS instance of the inspector, which was a service next to Ironic. A current
/// Ironic does the inspector's work itself.
const INSPECTOR: &str = "baremetal-introspection";

/// The pause after a change of the network, because more changes may follow: the ports of
/// a card come up one after another, and a lease comes after the carrier.
const NETWORK_SETTLES: Duration = Duration::from_secs(5);

impl Boot {
    /// Posts the inventory if this boot has an inspection. Returns the node's UUID if
    /// Ironic's answer has it. After a failure the boot continues or the agent retries
    /// forever: see [`Retry`].
    pub(super) async fn inspect(&mut self, retry: Retry) -> Option<String> {
        let urls = match self.settings.params.inspection_urls()? {
            ServiceUrls::Urls(urls) => urls,
            ServiceUrls::Mdns => self.find_inspection().await,
        };
        landfall_network::first_address(&mut self.network).await;
        let disk_arrival = self.disk_arrival().await;
        let neighbours = self.make_vlans_by_lldp().await;
        let params = &self.settings.params;
        wait_for_addresses(params, &mut self.network).await;
        let circumstances = Circumstances {
            collectors: params.inspection_collectors.value.clone(),
            lldp_timeout: *params.lldp_timeout,
            lldp_in_interfaces: *params.collect_lldp,
            neighbours,
            logs: commands::logs_for_inspection,
            disk_arrival: disk_arrival.of_all_disks(),
            network: self.network.clone(),
            bootif: params.boot_interface.as_ref().map(|nic| nic.text.clone()),
            hide_bmc_nics: !*params.bmc_nics,
            embedded: self.settings.embedded.clone(),
            managers: &commands::HARDWARE_MANAGERS,
        };
        match self.gather_and_post(&urls, circumstances, retry).await {
            // This is not an error: virtual media contain the inspection URL for every
            // operation, not only for an inspection.
            Err(NotTaken::NotAsked(_)) if self.settings.params.api_url.is_some() => {
                tracing::info!("inspection: Ironic does not inspect this machine now");
                None
            }
            Ok(uuid) => {
                tracing::info!("inspection: Ironic has accepted the inventory");
                uuid
            }
            Err(fault) => {
                let fault = fault.to_string();
                let (fault, remedy) = split_remedy(&fault);
                tracing::error!("inspection: {fault}; continuing without inspection{remedy}");
                None
            }
        }
    }

    /// Gathers the inventory and posts it. Starts again if the network changes before
    /// Ironic has the inventory. Also starts again, without the largest collector, if the
    /// inventory is too large.
    async fn gather_and_post(
        &mut self,
        urls: &[String],
        mut circumstances: Circumstances,
        retry: Retry,
    ) -> Result<Option<String>, NotTaken> {
        let mut is_first = true;
        loop {
            let reported = of_inventory(&self.network.borrow());
            let inspected = inspection::inspect(SystemPath::live(), circumstances.clone()).await;
            if std::mem::replace(&mut is_first, false)
                && let Ok(Some(remark)) = commands::blocking(|| Ok(missing_disks())).await
            {
                self.remark(remark);
            }
            let out_of_date = other_network_than(reported, self.network.clone());
            let posted = match inspected {
                Ok(body) => {
                    let transport = self.transport();
                    post_inventory(&transport, urls, &body, retry, out_of_date).await
                }
                Err(failure) => Err(NotTaken::Failed(failure.to_string())),
            };
            match &posted {
                Err(NotTaken::OutOfDate) => {
                    tracing::info!(
                        "inspection: the network has changed: gathering the inventory again"
                    );
                    // Forget the LLDP data, so that the agent also listens on new NICs.
                    circumstances.neighbours = None;
                }
                Err(NotTaken::TooLarge(fault)) => {
                    let Some(name) = leave_out_largest(&mut circumstances.collectors) else {
                        return posted;
                    };
                    tracing::warn!("inspection: {fault}; posting without the collector {name}");
                }
                _ => return posted,
            }
        }
    }

    /// If the operator wants the VLANs that switches announce: listens for LLDP data and
    /// creates these VLANs, because the inventory must include them. Returns the LLDP
    /// data; `None` if the operator does not want the VLANs or has switched LLDP off
    /// (`ipa-collect-lldp`).
    async fn make_vlans_by_lldp(&self) -> Option<lldp::Neighbours> {
        let params = &self.settings.params;
        let wanted = &params.enable_vlan_interfaces.value;
        if !*params.collect_lldp || !needs_lldp(wanted) {
            return None;
        }
        let limit = *params.lldp_timeout;
        let seconds = limit.as_secs();
        tracing::info!("listening up to {seconds} s for VLANs that switches announce by LLDP");
        let neighbours = lldp::listen(&SystemPath::live(), limit).await;
        let tags = neighbours
            .iter()
            .map(|(nic, elements)| (nic.clone(), lldp::tlv::vlan_tags(elements)))
            .collect();
        let (made, all_made) = oneshot::channel();
        let order = SwitchVlans {
            wanted: wanted.clone(),
            tags,
            made,
        };
        if self.switch_vlans.send(order).await.is_ok() {
            // An error means that the network task has ended, so there is nothing to wait
            // for.
            let _ = all_made.await;
        } else if self.live.is_some() {
            tracing::warn!(
                "ipa-enable-vlan-interfaces: NetworkManager manages the links of a live system, so the agent creates no VLAN"
            );
        } else {
            tracing::warn!(
                "ipa-enable-vlan-interfaces: the agent's network task has ended, so the agent creates no VLAN"
            );
        }
        Some(neighbours)
    }

    /// Asks by mDNS until an answer says where the inventory goes.
    async fn find_inspection(&mut self) -> Vec<String> {
        self.first_address_or(FAR_ADDRESS_LIMIT).await;
        let question = question(&self.settings.params, &[INSPECTOR, IRONIC]);
        loop {
            match landfall_discovery::ask_network(&question).await {
                Ok((instance, endpoint)) => {
                    self.take_mdns(&endpoint.settings);
                    let path = match instance {
                        INSPECTOR => "/v1/continue",
                        _ => "/v1/continue_inspection",
                    };
                    return vec![format!("{}{path}", endpoint.url)];
                }
                Err(fault) => {
                    let pause = Duration::from_secs_f64(landfall_sys::backoff::between(5.0, 10.0));
                    let seconds = pause.as_secs();
                    tracing::warn!("inspection: mDNS: {fault}; asking again in {seconds} s");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
}

/// Removes from the list the collector that usually has the most data, and returns its
/// name. Never removes `default`, because Ironic needs it. Since 2026-06 Ironic accepts
/// at most 16 MiB.
fn leave_out_largest(collectors: &mut Vec<String>) -> Option<String> {
    let largest = [
        "logs",
        "lldp",
        "pci-devices",
        "usb-devices",
        "numa-topology",
    ];
    let at = largest
        .iter()
        .find_map(|name| collectors.iter().position(|given| given == name))?;
    Some(collectors.remove(at))
}

/// Explains to the operator why the list of disks in Ironic is empty. `None` if the list
/// has a disk.
fn missing_disks() -> Option<String> {
    let root = SystemPath::live();
    let is_reported = |disk: &Disk| disk.traits.why_untouchable().is_none();
    let none = !disks::collect(&root).iter().any(is_reported);
    none.then(|| {
        let why = driver_faults::why_none(&root, Purpose::Storage);
        format!("no disk found: {why}")
    })
}

/// Waits until the NICs have the addresses that the inventory must include, or until the
/// time limit in the settings.
async fn wait_for_addresses(params: &BootParams, network: &mut watch::Receiver<NetworkState>) {
    let wanted = match params.boot_interface.as_ref() {
        _ if *params.inspection_dhcp_all_interfaces => WaitFor::AllNics,
        Some(boot_interface) => WaitFor::BootNic(boot_interface.mac),
        None => WaitFor::Nothing,
    };
    let limit = *params.inspection_dhcp_wait_timeout;
    if !limit.is_zero() && !landfall_network::inspection_addresses(network, wanted, limit).await {
        let nics = match wanted {
            WaitFor::AllNics => "every NIC with a carrier",
            _ => "the boot NIC",
        };
        let seconds = limit.as_secs();
        tracing::warn!(
            "inspection: waited {seconds} s for an address on {nics}; continuing without it"
        );
    }
}

/// The inventory's content that depends on the network: MAC addresses, and the IP
/// addresses of each NIC.
type OfInventory = (Vec<String>, BTreeMap<String, Vec<IpAddr>>);

fn of_inventory(state: &NetworkState) -> OfInventory {
    (state.macs(true, None), state.addresses())
}

/// Returns when the network no longer matches the inventory. May never return.
async fn other_network_than(reported: OfInventory, mut network: watch::Receiver<NetworkState>) {
    let is_another = |state: &NetworkState| of_inventory(state) != reported;
    if network.wait_for(is_another).await.is_err() {
        // The network task has ended, so its last state stays.
        std::future::pending().await
    }
    tokio::time::sleep(NETWORK_SETTLES).await;
}

#[cfg(test)]
mod tests {
    use landfall_network::lab::nic;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_inventory_is_out_of_date_with_a_new_nic_and_not_before() {
        let with = |nics: &[u32]| NetworkState {
            nics: nics.iter().map(|index| nic(*index, false)).collect(),
            ..NetworkState::default()
        };
        let (sender, network) = watch::channel(with(&[1]));
        let mut changed = Box::pin(other_network_than(of_inventory(&with(&[1])), network));
        let moment = Duration::from_secs(60);
        let waited = tokio::time::timeout(moment, &mut changed).await;
        assert!(waited.is_err(), "nothing has changed");
        sender.send_replace(NetworkState {
            preferred: Some(1),
            ..with(&[1])
        });
        let waited = tokio::time::timeout(moment, &mut changed).await;
        assert!(waited.is_err(), "the inventory does not tell of routes");
        sender.send_replace(with(&[1, 2]));
        let waited = tokio::time::timeout(moment, changed).await;
        assert!(waited.is_ok(), "there is another NIC");
    }

    #[test]
    fn the_largest_collector_goes_first_and_the_inventory_stays() {
        let given = ["default", "usb-devices", "logs", "pci-devices"];
        let mut collectors = given.map(str::to_owned).to_vec();
        let mut left_out = Vec::new();
        while let Some(name) = leave_out_largest(&mut collectors) {
            left_out.push(name);
        }
        assert_eq!(left_out, ["logs", "pci-devices", "usb-devices"]);
        assert_eq!(collectors, ["default"]);
    }
}
