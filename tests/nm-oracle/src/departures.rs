//! Lists the intended differences between Landfall and NetworkManager's
//! generator. Each rule has a reason and removes arguments from a line before
//! both sides read it. The remaining arguments are compared.

use std::fmt;
use std::str::FromStr;

use landfall_boot_params::NetArgs;
use landfall_boot_params::dracut_net::DeviceSpec;

/// NetworkManager's major and minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32, u32);

impl FromStr for Version {
    type Err = String;

    /// Also reads Debian's form: `1.42.4-1+deb12u1`.
    fn from_str(text: &str) -> Result<Version, String> {
        let mut numbers = text.split(['.', '-', '+', '~']).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Version(major, minor)),
            _ => Err(format!("expected a version such as 1.42.4, found {text:?}")),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

pub struct Rule {
    /// Why Landfall behaves differently.
    pub reason: &'static str,
    /// The first version of NetworkManager that behaves like Landfall, if there is
    /// one.
    fixed_in: Option<Version>,
    applies: fn(key: &str, value: &str, argument: &str, line: &[String]) -> bool,
}

/// All intended differences that can be recognised from one argument, some of them only
/// with the other arguments of its line.
pub const RULES: &[Rule] = &[
    Rule {
        reason: "a controller cannot be its own port; what is neither a name nor a MAC address \
                 is no controller and no port",
        fixed_in: None,
        applies: |key, value, _, _| {
            matches!(key, "bond" | "bridge" | "team") && has_impossible_port(key, value)
        },
    },
    Rule {
        reason: "a VLAN cannot lie on itself or on a device that cannot exist, and needs a name \
                 that an interface can have and an id up to 4094",
        fixed_in: None,
        applies: |key, _, argument, _| key == "vlan" && is_ignored(argument),
    },
    Rule {
        reason: "a partition of an InfiniBand device has the name that the kernel gives it: \
                 NetworkManager drops the profile of ib0.1 and wants ib0.0001",
        fixed_in: None,
        applies: |key, value, _, _| {
            let name = value.split(':').next().unwrap_or_default();
            let key_text = name.split_once('.').map_or("", |(_, key)| key);
            key == "ib.pkey" && key_text.len() != 4
        },
    },
    Rule {
        reason: "rd.ethtool does not turn a bond, bridge, team, VLAN, partition or port of InfiniBand \
                 into an Ethernet device",
        fixed_in: None,
        applies: |key, value, _, line| {
            let device = value.split(':').next().unwrap_or_default();
            let is_infiniband = matches!(DeviceSpec::parse(device), DeviceSpec::Infiniband(_));
            let is_made = || line.iter().any(|argument| is_made_by(device, argument));
            key == "rd.ethtool" && (is_infiniband || is_made())
        },
    },
    Rule {
        reason: "rd.ethtool=NIC:off without a speed is ignored with a warning; NetworkManager \
                 warns too, but forgets what an earlier argument says",
        fixed_in: None,
        applies: |key, _, argument, _| key == "rd.ethtool" && has_warning(argument),
    },
    Rule {
        reason: "older versions take a prefix length out of a bracketed IPv6 address, drop an \
                 argument with a faulty prefix length, and use the prefix length if the mask \
                 is faulty; they do not know two pairs of brackets",
        fixed_in: Some(Version(1, 54)),
        applies: |key, value, argument, _| {
            let is_address = matches!(key, "ip" | "rd.route" | "nameserver");
            let is_odd = ["]/", "/:", "[["].iter().any(|odd| value.contains(odd));
            is_address && (is_odd || value.contains('/') && has_warning(argument))
        },
    },
];

impl Rule {
    /// True if the rule removes this argument.
    pub fn applies(&self, argument: &str, line: &[String], version: Version) -> bool {
        let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
        let is_fixed = self.fixed_in.is_some_and(|fixed| version >= fixed);
        !is_fixed && (self.applies)(key, value, argument, line)
    }
}

fn args(argument: &str) -> NetArgs {
    NetArgs::parse(argument)
}

/// True if Landfall warns that it ignores part of the argument.
pub fn has_warning(argument: &str) -> bool {
    let plan = landfall_network_plan::NetworkPlan::from_boot_args(&args(argument));
    !plan.warnings.is_empty()
}

fn is_ignored(argument: &str) -> bool {
    let plan = landfall_network_plan::NetworkPlan::from_boot_args(&args(argument));
    plan.interfaces.is_empty() && !plan.warnings.is_empty()
}

/// True if the argument creates a virtual interface with this name.
fn is_made_by(name: &str, argument: &str) -> bool {
    let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
    let first = value.split(':').next().filter(|first| !first.is_empty());
    let default = default_name(key);
    (matches!(key, "vlan" | "ib.pkey") || default.is_some()) && first.or(default) == Some(name)
}

fn default_name(key: &str) -> Option<&'static str> {
    match key {
        "bond" => Some("bond0"),
        "bridge" => Some("br0"),
        "team" => Some("team0"),
        _ => None,
    }
}

fn has_impossible_port(key: &str, value: &str) -> bool {
    let mut fields = value.splitn(3, ':');
    let name = fields.next().filter(|name| !name.is_empty());
    let name = name.or(default_name(key)).unwrap_or_default();
    let is_invalid = |device| matches!(DeviceSpec::parse(device), DeviceSpec::Invalid(_));
    let ports = fields.next().unwrap_or_default().split(',');
    let mut ports = ports.map(|port| if port.is_empty() { "eth0" } else { port });
    is_invalid(name) || ports.any(|port| port == name || is_invalid(port))
}
