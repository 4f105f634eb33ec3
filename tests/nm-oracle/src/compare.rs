//! Compares what NetworkManager's generator and Landfall make of one kernel command
//! line.

use std::collections::BTreeMap;

use anyhow::Result;
use landfall_boot_params::NetArgs;
use landfall_network_plan::{IpPrefix, NetworkPlan};
use serde_json::Value;

use crate::departures::{self, RULES, Version};
use crate::generator::{Generated, Generator};
use crate::keyfile::Keyfile;

/// The result of one side, in a common form.
#[derive(Debug, PartialEq)]
struct Form {
    host_name: Option<String>,
    carrier_timeout: Option<u64>,
    interfaces: Vec<Value>,
}

#[derive(Debug)]
pub enum Comparison {
    /// Both sides mean the same. Holds the reason for each argument that was removed
    /// before the comparison: that of a rule in [`RULES`](crate::departures::RULES), or
    /// [`LOST`].
    Equal(Vec<&'static str>),
    /// The generator crashes, or drops a profile because arguments contradict each
    /// other. Landfall drops only the field that does not fit.
    NotComparable,
    /// The plan or the keyfiles differ from NetworkManager's profiles. Holds the
    /// differences as lines of text.
    Different(Vec<String>),
}

/// Compares the plan and the keyfiles for one line.
pub fn compare(line: &[String], generator: &Generator) -> Result<Comparison> {
    let (line, mut reasons) = without_departures(line, generator.version);
    let Some(mut generated) = generator.run(&line)? else {
        return Ok(Comparison::NotComparable);
    };
    let mut line = line;
    if !generated.lost.is_empty() {
        let mut kept = Vec::new();
        for argument in line {
            match generator.run(std::slice::from_ref(&argument))? {
                Some(alone) if alone.lost.is_empty() => kept.push(argument),
                _ if departures::has_warning(&argument) => reasons.push(LOST),
                _ => {
                    let text = format!(
                        "NetworkManager drops the profile of {argument}; here it is taken without a warning"
                    );
                    return Ok(Comparison::Different(vec![text]));
                }
            }
        }
        line = kept;
        generated = match generator.run(&line)? {
            Some(generated) if generated.lost.is_empty() => generated,
            _ => return Ok(Comparison::NotComparable),
        };
    }
    let args = NetArgs::parse(&line.join(" "));
    let plan = NetworkPlan::from_boot_args(&args);
    let mut theirs = of_generator(&generated);
    let mut ours = of_plan(&plan);
    let mut lines = difference(&theirs, &ours);
    if lines.is_empty() {
        theirs.interfaces = as_keyfiles_say(theirs.interfaces);
        ours.interfaces = as_keyfiles_say(of_keyfiles(&plan));
        lines = difference(&theirs, &ours);
        if !lines.is_empty() {
            lines.push("(the plan is equal, the keyfiles are not)".to_owned());
        }
    }
    Ok(if lines.is_empty() {
        Comparison::Equal(reasons)
    } else {
        Comparison::Different(lines)
    })
}

/// The reason not to compare an argument if NetworkManager drops a profile because of
/// it.
const LOST: &str = "NetworkManager drops the whole profile; Landfall drops the field that does \
                    not fit, or the argument, with a warning";

fn without_departures(line: &[String], version: Version) -> (Vec<String>, Vec<&'static str>) {
    let mut reasons = Vec::new();
    let mut kept = Vec::new();
    for argument in line {
        match RULES
            .iter()
            .find(|rule| rule.applies(argument, line, version))
        {
            Some(rule) => reasons.push(rule.reason),
            None => kept.push(argument.clone()),
        }
    }
    (kept, reasons)
}

fn difference(theirs: &Form, ours: &Form) -> Vec<String> {
    let mut lines = Vec::new();
    if theirs.host_name != ours.host_name {
        lines.push(format!(
            "host name: {:?}, here {:?}",
            theirs.host_name, ours.host_name
        ));
    }
    if theirs.carrier_timeout != ours.carrier_timeout {
        lines.push(format!(
            "carrier timeout: {:?}, here {:?}",
            theirs.carrier_timeout, ours.carrier_timeout
        ));
    }
    let mut rest = ours.interfaces.clone();
    for interface in &theirs.interfaces {
        match rest.iter().position(|other| other == interface) {
            Some(index) => drop(rest.remove(index)),
            None => lines.push(format!("NetworkManager: {interface}")),
        }
    }
    lines.extend(rest.iter().map(|i| format!("Landfall:       {i}")));
    lines
}

fn of_generator(generated: &Generated) -> Form {
    let names: BTreeMap<&str, &str> = generated
        .profiles
        .iter()
        .filter_map(|file| {
            Some((
                file.get("connection", "uuid")?,
                file.get("connection", "id")?,
            ))
        })
        .collect();
    let controller = |uuid: &str| names.get(uuid).map(|name| (*name).to_owned());
    let profiles = generated.profiles.iter();
    Form {
        host_name: generated.host_name.clone(),
        carrier_timeout: generated.carrier_timeout,
        interfaces: profiles
            .map(|file| without_defaults(file.interface(-100, controller)))
            .collect(),
    }
}

fn of_plan(plan: &NetworkPlan) -> Form {
    let form = serde_json::to_value(plan).unwrap_or_default();
    let mut interfaces = form["interfaces"].as_array().cloned().unwrap_or_default();
    for (form, interface) in interfaces.iter_mut().zip(&plan.interfaces) {
        form["last_choice"] = (interface.priority < 0).into();
    }
    Form {
        host_name: plan.host_name.clone(),
        carrier_timeout: plan.carrier_timeout.map(u64::from),
        interfaces: interfaces.into_iter().map(without_defaults).collect(),
    }
}

fn of_keyfiles(plan: &NetworkPlan) -> Vec<Value> {
    let files = plan.keyfiles();
    let files = files.iter().map(|file| Keyfile::parse(&file.text));
    files
        .map(|file| without_defaults(file.interface(0, |_| None)))
        .collect()
}

/// Removes values that the keyfiles of the installed system do not contain. Keyfiles do
/// not say how many devices they are for or how long to wait, and no keyfile is for
/// "every other device": NetworkManager decides all of that. Route destinations have no
/// bits set behind the prefix, as in the kernel.
fn as_keyfiles_say(interfaces: Vec<Value>) -> Vec<Value> {
    let mut kept = Vec::new();
    for mut interface in interfaces {
        if interface["match"] == serde_json::json!({}) {
            continue;
        }
        if let Some(form) = interface.as_object_mut() {
            form.remove("multi");
            form.remove("needed");
            for family in ["ipv4", "ipv6"] {
                if let Some(family) = form.get_mut(family).and_then(Value::as_object_mut) {
                    family.remove("required_timeout_ms");
                    let routes = family.get_mut("routes").and_then(Value::as_array_mut);
                    for route in routes.into_iter().flatten() {
                        route["dst"] = network(&route["dst"]);
                    }
                }
            }
        }
        kept.push(interface);
    }
    kept
}

fn network(destination: &Value) -> Value {
    let prefix = destination.as_str().map(str::parse::<IpPrefix>);
    match prefix {
        Some(Ok(prefix)) => prefix.network().to_string().into(),
        _ => destination.clone(),
    }
}

/// Removes values that are null, false or an empty list.
fn without_defaults(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().map(|(k, v)| (k, without_defaults(v)));
            let is_default =
                |v: &Value| v.is_null() || *v == false || v.as_array().is_some_and(Vec::is_empty);
            Value::Object(kept.filter(|(_, v)| !is_default(v)).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_defaults).collect()),
        other => other,
    }
}
