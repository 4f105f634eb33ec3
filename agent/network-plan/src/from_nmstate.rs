//! NMState, YAML → [`NetworkPlan`].
//!
//! What is taken is what nmstate's own generator for offline use takes
//! (`nmstatectl gc`, crate `nmstate` 2.2.62), with its meaning: an interface
//! without `ipv4` and `ipv6` has no addresses, one without `type` is a NIC, a
//! port that is not described is one too. `tests/nmstate-oracle` compares the
//! two. What a ramdisk cannot have is refused with the path of its key, and so
//! is what NetworkManager would refuse of the generator's files.

mod bond;
mod bridge;
mod dns;
mod ethernet;
mod fields;
mod interface;
mod ip;
mod ports;
mod refused;
mod routes;
mod vlan;
mod yaml;

use crate::plan::NetworkPlan;
use fields::{Fields, Findings};
use yaml::Yaml;

/// Longest text that is read: some hundred interfaces have a tenth of it.
pub const LARGEST: usize = 1 << 20;

const TOP: &[&str] = &[
    "description",
    "hostname",
    "dns-resolver",
    "routes",
    "interfaces",
];

impl NetworkPlan {
    /// The plan that a document describes, and nothing else.
    ///
    /// # Errors
    /// Every fault in one line each, with the path of its key.
    pub fn from_nmstate(text: &str) -> Result<NetworkPlan, Vec<String>> {
        if text.len() > LARGEST {
            let found = text.len();
            return Err(vec![format!(
                "expected at most {LARGEST} bytes, found {found}"
            )]);
        }
        let text = text.trim_start_matches('\u{feff}');
        let document =
            Yaml::parse(text).map_err(|words| vec![format!("expected YAML: {words}")])?;
        let findings = Findings::default();
        let plan = read(&document, &findings);
        let warnings = findings.into_result()?;
        let mut plan = plan.unwrap_or_default();
        plan.warnings = warnings;
        plan.sort();
        plan.warn_of_far_gateways();
        Ok(plan)
    }
}

/// YAML that holds NMState among other things, as JSON, within the same limits
/// of depth and count.
///
/// # Errors
/// In one line, with the place, if it is no YAML or beyond the limits.
pub fn yaml_to_json(text: &str) -> Result<serde_json::Value, String> {
    let text = text.trim_start_matches('\u{feff}');
    Yaml::parse(text)
        .map(Yaml::into_json)
        .map_err(|words| format!("expected YAML: {words}"))
}

fn read(document: &Yaml, findings: &Findings) -> Option<NetworkPlan> {
    let top = match document {
        Yaml::Map(map) => {
            let top = Fields::unchecked(document, String::new(), findings)?;
            let mut keys = TOP.to_vec();
            keys.extend(
                map.iter()
                    .filter(|(key, value)| key == "route-rules" && has_no_rule(value))
                    .map(|(key, _)| key.as_str()),
            );
            top.expect_keys(&[&keys]);
            top
        }
        Yaml::Null => Fields::unchecked(document, String::new(), findings)?,
        other => {
            findings.fault(
                "document",
                format!("expected a mapping, found {}", other.kind()),
            );
            return None;
        }
    };
    let _ = top.text("description");
    let mut described = interface::read_all(&top);
    ports::connect(&mut described, findings);
    routes::read(&top, &mut described);
    dns::read(&top, &mut described);
    Some(NetworkPlan {
        host_name: host_name(&top),
        interfaces: described.into_interfaces(findings),
        ..NetworkPlan::default()
    })
}

/// True where no routing rule would be left: a state that was read from a
/// running system has the key in any case.
fn has_no_rule(rules: &Yaml) -> bool {
    let is_gone = |rule: &Yaml| match rule {
        Yaml::Map(map) => map.contains(&("state".to_owned(), Yaml::Text("absent".to_owned()))),
        _ => false,
    };
    match rules {
        Yaml::Null => true,
        Yaml::Map(lists) => lists.iter().all(|(_, list)| match list {
            Yaml::Null => true,
            Yaml::List(list) => list.iter().all(is_gone),
            _ => false,
        }),
        _ => false,
    }
}

fn host_name(top: &Fields) -> Option<String> {
    let fields = top.child("hostname", &["running", "config"])?;
    let _ = fields.text("running");
    // Nothing between the quotes: the name comes from elsewhere.
    let name = fields.text("config").filter(|name| !name.is_empty())?;
    if !landfall_boot_params::dracut_net::is_host_name(name) {
        fields.fault("config", format!("expected a host name, found {name:?}"));
    }
    Some(name.to_owned())
}

#[cfg(test)]
mod tests;
