//! Computes the names that the installed system will give its network interfaces.
//!
//! Configuration refers to interfaces by udev's names (`enp2s0`, `ens3f0np0`), but the
//! ramdisk has no udev. So this module follows the rules of udev's net_id and
//! 99-default.link, and reads only /sys.

mod candidates;
mod other_buses;
mod pci_location;
mod scheme;

use candidates::candidates;
pub use scheme::Scheme;

use landfall_boot_params::dracut_net::NameArgument;
use landfall_boot_params::{CommandLine, MacAddr, NetArgs, Token};
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

const LONGEST: usize = 15;
/// `NET_NAME_PREDICTABLE`, `NET_NAME_USER` and `NET_NAME_RENAMED`: the values
/// of `name_assign_type` for an interface that keeps its current name.
const SETTLED: [u32; 3] = [2, 3, 4];

/// How interfaces are named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamingPolicy {
    /// Names given by the operator (`ifname=`). They take precedence over all
    /// others.
    pub given: Vec<NameArgument>,
    /// Keep the kernel's names (`net.ifnames=0`).
    pub keep_kernel_names: bool,
    pub scheme: Scheme,
}

/// The names that an interface gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceName {
    /// Current name in the kernel.
    pub kernel_name: String,
    /// Future name; the same as `kernel_name` if the interface is not renamed.
    pub name: String,
    /// Alternative names.
    pub alternatives: Vec<String>,
}

impl NamingPolicy {
    /// Reads `ifname=`, `net.ifnames=` and `net.naming_scheme=`. Returns a warning for
    /// an unknown scheme. (The parser of the network arguments returns the warnings
    /// about `ifname=`.)
    pub fn from_command_line(line: &CommandLine) -> (Self, Vec<String>) {
        let mut policy = Self {
            given: NetArgs::from_command_line(line).names,
            ..Self::default()
        };
        let mut warnings = Vec::new();
        if let Some(value) = line.last("net.ifnames").map(Token::value_or_empty) {
            policy.keep_kernel_names = ["0", "no", "n", "off", "false", "f"]
                .contains(&value.to_ascii_lowercase().as_str());
        }
        // systemd treats `-` and `_` in keys as equal (proc-cmdline.c).
        let wanted = line
            .last("net.naming_scheme")
            .or_else(|| line.last("net.naming-scheme"));
        if let Some(name) = wanted.map(Token::value_or_empty) {
            match Scheme::by_name(name) {
                Some(scheme) => policy.scheme = scheme,
                None => warnings.push(format!(
                    "net.naming_scheme={name}: expected v238 to v257, latest, or rhel-8.0 to rhel-10.1; using {}",
                    scheme::DEFAULT
                )),
            }
        }
        (policy, warnings)
    }

    pub fn given_to(&self, mac: MacAddr) -> Option<&str> {
        let given = self.given.iter().find(|given| given.mac == mac);
        given.map(|given| given.name.as_str())
    }

    /// Whether the operator has given this name to a NIC with another address.
    pub fn is_reserved(&self, name: &str, mac: Option<MacAddr>) -> bool {
        let mut given = self.given.iter();
        given.any(|given| given.name == name && Some(given.mac) != mac)
    }
}

/// The names of all interfaces that have a given name or a candidate other than their MAC
/// name. If two interfaces have the same candidate, the interface that the kernel found
/// first gets it.
pub fn names(root: &SystemPath, policy: &NamingPolicy) -> Vec<InterfaceName> {
    let directory = root.join("sys/class/net");
    let mut interfaces: Vec<(u32, String)> = sysfs::names(&directory)
        .into_iter()
        .filter_map(|name| Some((sysfs::number(&directory.join(&name).join("ifindex"))?, name)))
        .collect();
    interfaces.sort_unstable();
    let mut taken: Vec<String> = interfaces.iter().map(|(_, name)| name.clone()).collect();
    let mut named = Vec::new();
    for (_, kernel_name) in interfaces {
        let is_taken = |name: &String| taken.contains(name);
        let mac = sysfs::text(&directory.join(&kernel_name).join("address"));
        let mac = mac.and_then(|mac| mac.parse().ok());
        if let Some(found) = name_where(root, &kernel_name, mac, policy, is_taken) {
            taken.push(found.name.clone());
            named.push(found);
        }
    }
    named
}

/// The names of one interface. `mac` is its permanent address. The interfaces that the
/// kernel found earlier must already have their names, because a name in use is skipped.
/// `None` if the interface has neither a given name nor a candidate other than its MAC
/// name.
pub fn name_of(
    root: &SystemPath,
    kernel_name: &str,
    mac: MacAddr,
    policy: &NamingPolicy,
) -> Option<InterfaceName> {
    let directory = root.join("sys/class/net");
    name_where(root, kernel_name, Some(mac), policy, |name| {
        directory.join(name).exists()
    })
}

fn name_where(
    root: &SystemPath,
    kernel_name: &str,
    mac: Option<MacAddr>,
    policy: &NamingPolicy,
    is_taken: impl Fn(&String) -> bool,
) -> Option<InterfaceName> {
    let interface = root.join("sys/class/net").join(kernel_name);
    let candidates = candidates(root, &interface, &policy.scheme);
    let mut found: Vec<String> = [candidates.onboard, candidates.slot, candidates.path]
        .into_iter()
        .flatten()
        .collect();
    let wanted = found.iter().find(|name| is_interface_name(name)).cloned();
    let given = mac.and_then(|mac| policy.given_to(mac));
    if found.is_empty() && given.is_none() {
        return None;
    }
    let assigned = sysfs::number(&interface.join("name_assign_type"));
    let stays =
        policy.keep_kernel_names || assigned.is_some_and(|kind: u32| SETTLED.contains(&kind));
    let is_free = |name: &String| !is_taken(name) && !policy.is_reserved(name, mac);
    let name = match given {
        Some(given) => given.to_owned(),
        None => wanted
            .filter(|name| !stays && is_free(name))
            .unwrap_or_else(|| kernel_name.to_owned()),
    };
    // Since systemd v257, udev adds the MAC name as an alternative name. Earlier
    // releases do not, but the additional name does no harm.
    found.extend(candidates.mac);
    let mut alternatives: Vec<String> = Vec::new();
    for candidate in found {
        let is_new = candidate != name && !alternatives.contains(&candidate);
        if is_new && !policy.is_reserved(&candidate, mac) {
            alternatives.push(candidate);
        }
    }
    Some(InterfaceName {
        kernel_name: kernel_name.to_owned(),
        name,
        alternatives,
    })
}

/// Whether the kernel and udev accept the name (udev's `ifname_valid_full`).
fn is_interface_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_graphic() && !['/', ':', '%'].contains(&c);
    (1..=LONGEST).contains(&name.len())
        && name.chars().all(allowed)
        && !name.bytes().all(|byte| byte.is_ascii_digit())
        && ![".", "..", "all", "default"].contains(&name)
}

#[cfg(test)]
mod tests;
