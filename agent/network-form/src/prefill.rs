//! What the form shows when it opens: the plan in force.

use std::net::IpAddr;

use landfall_boot_params::dracut_net::is_host_name;
use landfall_network_plan::{InterfaceKind, IpPlan, NetworkPlan};
use landfall_report::status::shown;

use super::chain::{Chain, Names, OTHER, gateway_of};
use super::facts::{Fact, facts, lost};
use super::values::Values;
use super::{LONGEST_VALUE, OfferedNic};

/// The maximum length in bytes of the list of lost settings. The arguments are shown
/// below the list; without this limit they might not fit on the screen.
const LONGEST_LIST: usize = 240;

/// The values of a plan, and what the form cannot show of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefill {
    pub values: Values,
    /// Each NIC that the plan names and this machine does not have, and the NIC that the
    /// form shows instead.
    pub replaced: Vec<(String, String)>,
    /// The settings of the plan that the values do not express.
    pub lost: Vec<Fact>,
}

impl Prefill {
    /// The values of the plan in force. `rest` has the values that do not belong to the
    /// network. `becomes` turns kernel arguments into the plan that they would give this
    /// machine.
    pub fn of_plan(
        plan: &NetworkPlan,
        nics: &[OfferedNic],
        rest: Values,
        becomes: impl Fn(&str) -> NetworkPlan,
    ) -> Self {
        let chain = Chain::of(plan, nics);
        let values = values(plan, nics, &chain, rest);
        let replaced = { chain.ports.iter() }
            .filter(|port| port.is_replacement)
            .map(|port| (port.wanted.to_string(), nics[port.nic].name.clone()))
            .collect();
        // If the values give no arguments, for example because there is no NIC, there is
        // nothing to compare. The form then shows the fault.
        let lost = match values.written() {
            Err(_) => Vec::new(),
            Ok(arguments) => {
                let made = becomes(&arguments);
                let of_plan = Names::of_shown(plan, nics, &chain, &values);
                let nothing = Chain::default();
                let of_made = Names::of_made(&made, nics, &nothing);
                lost(facts(plan, &of_plan), &facts(&made, &of_made))
            }
        };
        Self {
            values,
            replaced,
            lost,
        }
    }

    /// What the operator must know before the values replace the plan. `None` if the
    /// values express the whole plan.
    pub(super) fn notice(&self) -> Option<String> {
        let mut sentences: Vec<String> = { self.replaced.iter() }
            .map(|(wanted, nic)| format!("{wanted} does not exist here; {nic} takes its place."))
            .collect();
        if !self.lost.is_empty() {
            let count = match self.lost.len() {
                1 => "1 thing is".to_owned(),
                count => format!("{count} things are"),
            };
            let list = list(&self.lost);
            sentences.push(format!(
                "These values replace the whole network of this boot. {count} lost: {list}"
            ));
        }
        (!sentences.is_empty()).then(|| shown(&sentences.join(" ")))
    }
}

/// The settings in one text, with the name of each interface once.
fn list(facts: &[Fact]) -> String {
    let mut list = String::new();
    let mut name = "";
    for (number, fact) in facts.iter().enumerate() {
        let text = fact.text.replace(OTHER, "");
        let item = match (number, fact.name == name, fact.name.as_str()) {
            (0, _, "") => text,
            (0, _, new) => format!("{new}: {text}"),
            (_, _, "") => format!("; {text}"),
            (_, true, _) => format!(", {text}"),
            (_, false, new) => format!("; {new}: {text}"),
        };
        if number > 0 && list.len() + item.len() > LONGEST_LIST {
            return format!("{list}; and {} more", facts.len() - number);
        }
        list += &item;
        name = &fact.name;
    }
    list
}

fn values(plan: &NetworkPlan, nics: &[OfferedNic], chain: &Chain, rest: Values) -> Values {
    let nic = |place: usize| {
        let port = chain.ports.get(place)?;
        Some(nics[port.nic].name.clone())
    };
    let mut values = Values {
        nic: nic(0).unwrap_or_default(),
        second: nic(1),
        lacp: chain.bond.is_some_and(|bond| is_lacp(plan, bond)),
        vlan: chain
            .vlan
            .map_or_else(String::new, |(_, id)| id.to_string()),
        host_name: plan.host_name.clone(),
        dns: dns(plan, chain),
        ..rest
    };
    if let Some(top) = chain.top {
        let families = plan.interfaces[top].families();
        let of_dhcp = families
            .clone()
            .find_map(|ip| ip.automatic.host_name.clone());
        values.host_name = values.host_name.or(of_dhcp);
        let fixed: Vec<&IpPlan> = families.filter(|ip| !ip.addresses.is_empty()).collect();
        let with_gateway = fixed.iter().find(|ip| gateway_of(ip).is_some());
        if let Some(ip) = with_gateway.or(fixed.first()) {
            values.address = ip.addresses[0].to_string();
            values.gateway = gateway_of(ip).map_or_else(String::new, |ip| ip.to_string());
        }
    }
    values.host_name = values.host_name.filter(|name| is_host_name(name));
    values
}

fn is_lacp(plan: &NetworkPlan, bond: usize) -> bool {
    let mode = match &plan.interfaces[bond].kind {
        InterfaceKind::Bond { options } => options.get("mode").map(String::as_str),
        InterfaceKind::Team { bond_mode } => Some(*bond_mode),
        _ => None,
    };
    matches!(mode, Some("802.3ad" | "4"))
}

/// The global DNS servers of the plan, or else the servers of all interfaces, with those
/// of the shown interface first. Separated by commas, and at most [`LONGEST_VALUE`]
/// bytes.
fn dns(plan: &NetworkPlan, chain: &Chain) -> String {
    let top = chain.top.map(|top| &plan.interfaces[top]);
    let interfaces = top.into_iter().chain(&plan.interfaces);
    let own: Vec<IpAddr> = match plan.global_dns.as_slice() {
        [] => interfaces
            .flat_map(|interface| interface.families())
            .flat_map(|ip| ip.dns.iter().copied())
            .collect(),
        servers => servers.to_vec(),
    };
    let mut list = String::new();
    for (number, server) in own.iter().enumerate() {
        let text = server.to_string();
        let is_new = !own[..number].contains(server);
        if is_new && list.len() + 1 + text.len() <= LONGEST_VALUE {
            let comma = if list.is_empty() { "" } else { "," };
            list = format!("{list}{comma}{text}");
        }
    }
    list
}

#[cfg(test)]
mod tests;
