//! Selects the kernel arguments that this boot passes on to the first boot of the
//! installed CoreOS.

use crate::cmdline::{CommandLine, Token};

/// The network arguments that this boot passes on to the first boot. Each argument may
/// have a value (`name=value`) or none (`name`). The script `coreos-installer-service` of
/// coreos-installer passes on only some of them. Without the rest, the first boot could
/// lack a link of this boot, or get another lease or other name servers.
const FIRST_BOOT: &[&str] = &[
    "ipv6.disable",
    "net.ifnames",
    "net.naming-scheme",
    "net.naming_scheme",
    "ip",
    "ifname",
    "rd.route",
    "bootdev",
    "BOOTIF",
    "rd.bootif",
    "nameserver",
    "rd.peerdns",
    "biosdevname",
    "vlan",
    "bond",
    "team",
    "bridge",
    "ib.pkey",
    "rd.ethtool",
    "rd.iscsi.ibft",
    "rd.net.dhcp.client-id",
    "rd.net.dhcp.vendor-class",
    "rd.net.dns",
    "rd.net.timeout.carrier",
    "coreos.no_persist_ip",
    "coreos.force_persist_ip",
];

/// The arguments of [`FIRST_BOOT`] that the first boot still needs if it gets its
/// network from NetworkManager's files. These arguments decide whether IPv6 is enabled,
/// how NICs are named, and what happens to the files after the first boot. The files
/// replace all other arguments.
const WITH_FILES: &[&str] = &[
    "ipv6.disable",
    "net.ifnames",
    "net.naming-scheme",
    "net.naming_scheme",
    "ifname",
    "biosdevname",
    "coreos.no_persist_ip",
    "coreos.force_persist_ip",
];

/// The arguments of this boot that the first boot of the written disk gets as well,
/// verbatim and in order. If the list is not empty, the caller puts `rd.neednet=1` in
/// front, as coreos-installer does.
pub fn first_boot_arguments(line: &CommandLine) -> Vec<&str> {
    named(line, FIRST_BOOT)
}

/// The part of the [`first_boot_arguments`] that a first boot still needs if it gets
/// its network from NetworkManager's files.
pub fn arguments_with_files(line: &CommandLine) -> Vec<&str> {
    named(line, WITH_FILES)
}

fn named<'a>(line: &'a CommandLine, names: &[&str]) -> Vec<&'a str> {
    line.tokens()
        .iter()
        .filter(|token| names.iter().any(|name| is_called(token, name)))
        .map(|token| token.text.as_str())
        .collect()
}

/// Compares names exactly. `BOOTIF`, which boot loaders write, matches in any case.
fn is_called(token: &Token, name: &str) -> bool {
    token.key == name || (name == "BOOTIF" && token.key.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_on_network_arguments_and_nothing_else() {
        let line = CommandLine::parse(
            "BOOT_IMAGE=/vmlinuz console=ttyS0 ip=192.0.2.10::192.0.2.1:24:n1:eth0:none \
             nameserver=192.0.2.2 ipa-api-url=http://192.0.2.1 bond ip6=off ip.x=1 \
             nameserver=192.0.2.3 BOOTIF=01-52-54-00-00-00-01 rd.neednet=1 rd.net.timeout.dhcp=5 \
             rd.net.dhcp.client-id=eth0:01-02",
        );
        assert_eq!(
            first_boot_arguments(&line),
            [
                "ip=192.0.2.10::192.0.2.1:24:n1:eth0:none",
                "nameserver=192.0.2.2",
                "bond",
                "nameserver=192.0.2.3",
                "BOOTIF=01-52-54-00-00-00-01",
                "rd.net.dhcp.client-id=eth0:01-02",
            ]
        );
        assert!(first_boot_arguments(&CommandLine::parse("quiet ro")).is_empty());
    }

    /// This boot reads both `net.naming_scheme` and `net.naming-scheme` (module
    /// `interface_names`), and BOOTIF in any letter case.
    #[test]
    fn all_naming_arguments_of_this_boot_are_handed_on() {
        let line = "net.naming_scheme=v257 net.naming-scheme=v252 bootif=01-52-54-00-00-00-01";
        let line = CommandLine::parse(line);
        assert_eq!(
            first_boot_arguments(&line),
            [
                "net.naming_scheme=v257",
                "net.naming-scheme=v252",
                "bootif=01-52-54-00-00-00-01"
            ]
        );
        assert_eq!(
            arguments_with_files(&line),
            ["net.naming_scheme=v257", "net.naming-scheme=v252"]
        );
    }

    #[test]
    fn interface_name_arguments_apply_together_with_files() {
        let text = "ip=dhcp ifname=lan0:52-54-00-00-00-01 net.ifnames=0 bond vlan=a.1:a quiet";
        assert_eq!(
            arguments_with_files(&CommandLine::parse(text)),
            ["ifname=lan0:52-54-00-00-00-01", "net.ifnames=0"]
        );
        let list = |names: &[&str]| WITH_FILES.iter().all(|name| names.contains(name));
        assert!(list(FIRST_BOOT));
    }
}
