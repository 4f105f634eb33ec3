//! Keeps the status of this machine up to date (`landfall_report::status`): the host and
//! its NICs. Also serves the status pages until the agent serves commands.

use landfall_inventory::lldp::{self, Switches};
use landfall_inventory::{boot_mode, firmware, host_name, memory};
use landfall_network::NetworkState;
use landfall_network::reach::{Outcome, Reach};
use landfall_network::state::{MadeOf, NicState};
use landfall_report::failure::with_remedy;
use landfall_report::status::{self, Host, Network, Nic, WayStep};
use landfall_settings::Settings;
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;
use tokio::sync::watch;

use crate::api::{self, Listening};

/// The variable SecureBoot, one of the global variables of UEFI (UEFI specification,
/// section 3.3).
const SECURE_BOOT: &str =
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// Reports the machine, and from now on the state of its NICs.
pub(super) fn follow(network: watch::Receiver<NetworkState>, reach: watch::Receiver<Reach>) {
    let root = SystemPath::live();
    let host = host(&root);
    status::update(|status| status.host = host);
    let (sender, switches) = watch::channel(Switches::new());
    let listening = root.clone();
    tokio::spawn(async move { lldp::follow(&listening, sender).await });
    tokio::spawn(follow_network(root, network, reach, switches));
}

fn host(root: &SystemPath) -> Host {
    let (vendor, _) = firmware::collect(root);
    let (memory, _) = memory::collect(root);
    Host {
        name: host_name::given().unwrap_or_default(),
        vendor: vendor.manufacturer,
        product: vendor.product_name,
        serial: vendor.serial_number,
        boot_mode: boot_mode::collect(root, None).current_boot_mode.to_owned(),
        secure_boot: secure_boot(sysfs::bytes(&root.join(SECURE_BOOT))),
        memory: memory.total.map(|bytes| bytes >> 20),
    }
}

/// The variable has four bytes of attributes and one byte of data
/// (Documentation/filesystems/efivarfs.rst).
fn secure_boot(variable: Option<Vec<u8>>) -> Option<bool> {
    Some(*variable?.get(4)? == 1)
}

async fn follow_network(
    root: SystemPath,
    mut network: watch::Receiver<NetworkState>,
    mut reach: watch::Receiver<Reach>,
    mut switches: watch::Receiver<Switches>,
) {
    loop {
        let now = of_network(
            &root,
            &network.borrow_and_update(),
            &reach.borrow_and_update(),
            &switches.borrow_and_update(),
        );
        let name = host_name::given().unwrap_or_default();
        status::update(|status| {
            status.network = now;
            status.host.name = name;
        });
        // The senders of `network` and `reach` live as long as the boot, so an error
        // means that the boot has ended.
        let changed = tokio::select! {
            changed = network.changed() => changed,
            changed = reach.changed() => changed,
            Ok(()) = switches.changed() => Ok(()),
        };
        if changed.is_err() {
            return;
        }
    }
}

fn of_network(
    root: &SystemPath,
    network: &NetworkState,
    reach: &Reach,
    switches: &Switches,
) -> Network {
    let ways = landfall_discovery::ways(network, reach);
    let nics = network.nics.iter().map(|nic| {
        let way = ways.iter().find(|way| way.name == nic.name);
        let way = way.map_or(&[][..], |way| &way.steps);
        let steps = way.iter().map(|step| {
            let (text, own_remedy) = with_remedy(&step.text);
            WayStep {
                step: step.step.name().to_owned(),
                outcome: step.outcome.name().to_owned(),
                text: text.to_owned(),
                remedy: match step.outcome {
                    Outcome::Failed => own_remedy
                        .map(str::to_owned)
                        .or_else(|| landfall_discovery::remedy(step, network)),
                    Outcome::Done | Outcome::Waiting => None,
                },
            }
        });
        Nic {
            neighbour: switches.get(&nic.name).cloned(),
            ..of_nic(root, network, nic, steps.collect())
        }
    });
    Network {
        source: network.source.map(|source| source.to_string()),
        faults: network.faults.clone(),
        nics: nics.collect(),
        no_nic: network.no_nic.clone(),
    }
}

fn of_nic(root: &SystemPath, network: &NetworkState, nic: &NicState, way: Vec<WayStep>) -> Nic {
    let directory = root.join("sys/class/net").join(&nic.name);
    // Without a carrier the kernel returns an error for the speed of a NIC. An unknown
    // speed is -1.
    let speed = sysfs::text(&directory.join("speed"));
    let speed = speed.and_then(|text| text.trim().parse().ok());
    let (bond_mode, vlan, parent) = match &nic.made_of {
        Some(MadeOf::Bond { mode }) => (Some(mode.clone()), None, None),
        Some(MadeOf::Vlan { id, parent }) => (None, Some(*id), *parent),
        None => (None, None, None),
    };
    let mut others = network.nics.iter();
    let parent = parent.and_then(|index| others.find(|other| other.index == index));
    let is_port = |other: &&NicState| other.controller == Some(nic.index);
    Nic {
        name: nic.name.clone(),
        mac: nic.mac.to_string(),
        permanent_mac: nic.permanent_mac.map(|mac| mac.to_string()),
        bond_mode,
        ports: { network.nics.iter() }
            .filter(is_port)
            .map(|port| port.name.clone())
            .collect(),
        vlan,
        parent: parent.map(|parent| parent.name.clone()),
        driver: sysfs::link_name(&directory.join("device/driver")),
        carrier: nic.carrier,
        speed: speed.filter(|speed| *speed > 0 && *speed < u32::MAX),
        addresses: { nic.addresses.iter() }
            .map(|address| format!("{} from {}", address.prefix, address.origin))
            .collect(),
        neighbour: None,
        way,
    }
}

/// Serves the status pages until the agent serves commands on the same port. `None` if
/// the operator has switched the pages off. `None` also if the port is not available; the
/// agent reports that when it starts to serve commands.
pub(super) fn serve_pages(settings: &Settings) -> Option<Listening> {
    let params = &settings.params;
    if !*params.status {
        return None;
    }
    let port = *params.listen_port;
    api::listen(params.listen_host.value, port, None, api::status_router())
        .inspect_err(|error| tracing::debug!("no status page on port {port}: {error}"))
        .ok()
}

#[cfg(test)]
mod tests {
    use landfall_documentation::events_schema::{EventsSchema, Form};
    use landfall_network::lab;
    use landfall_network::reach::Step;
    use landfall_sys::sys_tree::plant;

    use super::*;

    #[test]
    fn the_fifth_byte_of_the_variable_says_whether_secure_boot_is_on() {
        assert_eq!(secure_boot(None), None);
        for (bytes, expected) in [
            (&[6, 0, 0, 0, 1][..], Some(true)),
            (&[6, 0, 0, 0, 0], Some(false)),
            (&[6, 0, 0, 0], None),
        ] {
            assert_eq!(secure_boot(Some(bytes.to_vec())), expected);
        }
    }

    #[test]
    fn bonds_and_vlans_name_the_nics_below() {
        let nic = |index, controller, made_of| NicState {
            controller,
            made_of,
            ..lab::nic(index, false)
        };
        let mode = "802.3ad".to_owned();
        let parent = Some(3);
        let network = NetworkState {
            nics: vec![
                nic(1, Some(3), None),
                nic(2, Some(3), None),
                nic(3, None, Some(MadeOf::Bond { mode })),
                nic(4, None, Some(MadeOf::Vlan { id: 100, parent })),
            ],
            ..NetworkState::default()
        };
        let root = plant("");
        let switches = Switches::new();
        let shown = of_network(root.path(), &network, &Reach::default(), &switches);
        let words: Vec<_> = { shown.nics.iter() }
            .map(|nic| nic.in_words().split(", 52:").next().unwrap().to_owned())
            .collect();
        assert_eq!(words[2..], ["802.3ad of eth1 eth2", "VLAN 100 on eth3"]);
        assert!(words[0].starts_with("52:54:"), "{words:?}");
    }

    #[test]
    fn the_schema_names_every_step_of_the_way_and_every_outcome() {
        let fields = EventsSchema::read().unwrap().fields(Form::Status);
        let steps = [
            Step::Carrier,
            Step::Address,
            Step::Route,
            Step::Dns,
            Step::Tcp,
            Step::Tls,
            Step::Http,
        ];
        assert_eq!(fields["network.nics[].way[].step"], steps.map(Step::name));
        let outcomes = [Outcome::Done, Outcome::Waiting, Outcome::Failed];
        let names = outcomes.map(Outcome::name);
        assert_eq!(fields["network.nics[].way[].outcome"], names);
    }
}
