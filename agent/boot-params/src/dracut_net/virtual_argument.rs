//! Parses `bond=`, `bridge=`, `team=` and `vlan=`.

use super::device::{DeviceSpec, is_interface_name};
use super::words::Words;
use crate::cmdline::Token;

/// The highest VLAN id: IEEE 802.1Q reserves 4095.
const LAST_VLAN: u16 = 4094;
/// More ports than any switch accepts in one group.
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
/// `team=NAME:PORTS[:RUNNER]`. Every field may be missing: NetworkManager then
/// makes `bond0` with the port `eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerArgument {
    /// The argument as written on the command line.
    pub text: String,
    pub kind: ControllerKind,
    pub name: String,
    pub ports: Vec<DeviceSpec>,
    /// A bond's options as written, except that `,` replaces the `;` between the
    /// items of a list. The network plan checks whether such an option exists.
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
    /// Its VLAN id: the digits at the end of the name.
    pub id: u16,
    /// The interface that carries the VLAN.
    pub parent: DeviceSpec,
}

impl ControllerArgument {
    pub(super) fn parse(
        kind: ControllerKind,
        token: &Token,
        warnings: &mut Vec<String>,
    ) -> Option<ControllerArgument> {
        let text = &token.text;
        let mut words = Words::new(token.value_or_empty());
        let name = match words.next(':') {
            "" => kind.default_name(),
            name => name,
        };
        if !is_interface_name(name) {
            warnings.push(format!(
                "{text}: expected the name of an interface, found {name:?}; ignored"
            ));
            return None;
        }
        let mut ports = Words::new(words.next(':'));
        let mut argument = ControllerArgument {
            text: text.clone(),
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
                    DeviceSpec::Invalid(port) => warnings.push(format!(
                        "{text}: expected the name or MAC of a port, found {port:?}; ignored"
                    )),
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
                argument.read_mtu(words.next(':'), warnings);
            }
            ControllerKind::Team => {
                let runner = words.next(':');
                argument.runner = (!runner.is_empty()).then(|| runner.to_owned());
            }
            ControllerKind::Bridge => {}
        }
        tell_extra(text, &words, warnings);
        Some(argument)
    }

    fn read_options(&mut self, text: &str) {
        let mut options = Words::new(text);
        while !options.rest().is_empty() && self.options.len() < MOST_OPTIONS {
            // A name ends at the next `=`; a `,` before it is part of the name.
            let name = options.next('=');
            let mut items = Words::new(options.next(','));
            let mut values = Vec::new();
            while !items.rest().is_empty() {
                values.push(items.next(';'));
            }
            self.options.push((name.to_owned(), values.join(",")));
        }
    }

    fn read_mtu(&mut self, text: &str, warnings: &mut Vec<String>) {
        if text.is_empty() {
            return;
        }
        match text.parse() {
            Ok(mtu) => self.mtu = Some(mtu),
            Err(_) => warnings.push(format!(
                "{}: expected an MTU, found {text:?}; ignored",
                self.text
            )),
        }
    }
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
        let text = &token.text;
        let mut words = Words::new(token.value_or_empty());
        let name = words.next(':');
        let parent = words.next(':');
        let id = vlan_id(name);
        let (Some(id), true, false) = (id, is_interface_name(name), parent.is_empty()) else {
            warnings.push(format!(
                "{text}: expected NAME:PARENT, with an id from 0 to {LAST_VLAN} at the end of the name; ignored"
            ));
            return None;
        };
        tell_extra(text, &words, warnings);
        let parent = DeviceSpec::parse(parent);
        if let DeviceSpec::Invalid(parent) = &parent {
            warnings.push(format!(
                "{text}: expected the name of an interface, found {parent:?}; ignored"
            ));
            return None;
        }
        Some(VlanArgument {
            text: text.clone(),
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

pub(super) fn tell_extra(text: &str, words: &Words<'_>, warnings: &mut Vec<String>) {
    if !words.rest().is_empty() {
        let rest = words.rest();
        warnings.push(format!(
            "{text}: expected no more fields, found {rest:?}; ignored"
        ));
    }
}
