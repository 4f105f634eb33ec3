//! Parses `bond=`, `bridge=`, `team=` and `vlan=`.

use super::device::{DeviceSpec, is_interface_name};
use super::words::Words;
use crate::cmdline::Token;

/// The highest VLAN id: IEEE 802.1Q reserves 4095.
const LAST_VLAN: u16 = 4094;
/// The maximum number of ports; the rest is ignored. No switch accepts as many in one
/// group.
const MOST_PORTS: usize = 64;
const MOST_OPTIONS: usize = 64;

/// An interface that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerKind {
    /// `bond=`
    Bond,
    /// `bridge=`
    Bridge,
    /// `team=`
    Team,
}

/// `bond=NAME[:PORTS[:OPTIONS[:MTU]]]`, `bridge=NAME:PORTS`,
/// `team=NAME:PORTS[:RUNNER]`. Every field may be missing: for a `bond=` without
/// fields, NetworkManager makes `bond0` with the port `eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerArgument {
    /// The argument as written on the command line.
    pub text: String,
    pub kind: ControllerKind,
    pub name: String,
    pub ports: Vec<DeviceSpec>,
    /// A bond's options as written, except that `,` replaces the `;` between the items of
    /// a list. The network plan checks whether the kernel has these options.
    pub options: Vec<(String, String)>,
    /// MTU of the interface; 0: the default.
    pub mtu: Option<u32>,
    /// A team's runner, as written. dracut reads it, NetworkManager does not.
    pub runner: Option<String>,
}

/// `vlan=NAME:PARENT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanArgument {
    /// The argument as written on the command line.
    pub text: String,
    pub name: String,
    /// The VLAN id: the digits at the end of the name.
    pub id: u16,
    /// The parent of the VLAN.
    pub parent: DeviceSpec,
}

impl ControllerArgument {
    pub(super) fn parse(
        kind: ControllerKind,
        token: &Token,
        warnings: &mut Vec<String>,
    ) -> Option<ControllerArgument> {
        let mut words = Words::new(token.value_or_empty());
        let name = match words.next(':') {
            "" => kind.default_name(),
            name => name,
        };
        if !is_interface_name(name) {
            warnings.push(token.expected("the name of an interface", name));
            return None;
        }
        let mut ports = Words::new(words.next(':'));
        let mut argument = ControllerArgument {
            text: token.text.clone(),
            kind,
            name: name.to_owned(),
            ports: Vec::new(),
            options: Vec::new(),
            mtu: None,
            runner: None,
        };
        loop {
            match ports.next(',') {
                "" => argument.ports.push(DeviceSpec::Name("eth0".to_owned())),
                port => match DeviceSpec::parse(port) {
                    DeviceSpec::Invalid(port) => {
                        warnings.push(token.expected("the name or MAC of a port", &port))
                    }
                    port => argument.ports.push(port),
                },
            }
            if ports.rest().is_empty() || argument.ports.len() == MOST_PORTS {
                break;
            }
        }
        match kind {
            ControllerKind::Bond => {
                argument.read_options(words.next(':'));
                argument.mtu = mtu(words.next(':'), token, warnings);
            }
            ControllerKind::Team => {
                let runner = words.next(':');
                argument.runner = (!runner.is_empty()).then(|| runner.to_owned());
            }
            ControllerKind::Bridge => {}
        }
        warn_of_more_fields(token, &words, warnings);
        Some(argument)
    }

    fn read_options(&mut self, text: &str) {
        let mut options = Words::new(text);
        while !options.rest().is_empty() && self.options.len() < MOST_OPTIONS {
            // The name of an option ends at `=`. A `,` in it is part of the name.
            let name = options.next('=');
            let mut items = Words::new(options.next(','));
            let mut values = Vec::new();
            while !items.rest().is_empty() {
                values.push(items.next(';'));
            }
            self.options.push((name.to_owned(), values.join(",")));
        }
    }
}

fn mtu(text: &str, token: &Token, warnings: &mut Vec<String>) -> Option<u32> {
    let mtu = text.parse().ok();
    if mtu.is_none() && !text.is_empty() {
        warnings.push(token.expected("an MTU", text));
    }
    mtu
}

impl ControllerKind {
    fn default_name(self) -> &'static str {
        match self {
            ControllerKind::Bond => "bond0",
            ControllerKind::Bridge => "br0",
            ControllerKind::Team => "team0",
        }
    }
}

impl VlanArgument {
    pub(super) fn parse(token: &Token, warnings: &mut Vec<String>) -> Option<VlanArgument> {
        let mut words = Words::new(token.value_or_empty());
        let name = words.next(':');
        let parent = words.next(':');
        let id = vlan_id(name);
        let (Some(id), true, false) = (id, is_interface_name(name), parent.is_empty()) else {
            warnings.push(token.ignored(format_args!(
                "expected NAME:PARENT, with an id from 0 to {LAST_VLAN} at the end of the name"
            )));
            return None;
        };
        warn_of_more_fields(token, &words, warnings);
        let parent = DeviceSpec::parse(parent);
        if let DeviceSpec::Invalid(parent) = &parent {
            warnings.push(token.expected("the name of an interface", parent));
            return None;
        }
        Some(VlanArgument {
            text: token.text.clone(),
            name: name.to_owned(),
            id,
            parent,
        })
    }
}

/// The number at the end of a name: `vlan5`, `vlan0005`, `eth0.5`, `storage5` → 5.
fn vlan_id(name: &str) -> Option<u16> {
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let id = name[digits..].parse().ok()?;
    (id <= LAST_VLAN).then_some(id)
}

pub(super) fn warn_of_more_fields(token: &Token, words: &Words<'_>, warnings: &mut Vec<String>) {
    if !words.rest().is_empty() {
        warnings.push(token.expected("no more fields", words.rest()));
    }
}
