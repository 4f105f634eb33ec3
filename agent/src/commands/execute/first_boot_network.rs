//! Passes the network of this boot on to the first boot of the installed system: if the
//! ramdisk needed a static address, Ignition needs it too.

use landfall_boot_params::coreos_args::{arguments_with_files, first_boot_arguments};
use landfall_boot_params::{CommandLine, NetArgs};
use landfall_handover::firstboot_network;
use landfall_network_plan::{Choice, Source};
use landfall_settings::Settings;

/// A network configuration in the two forms that CoreOS accepts. Files override
/// arguments, both in CoreOS and in this ramdisk. Empty if nobody configured a network,
/// because the image has the same default as the ramdisk.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FirstBootNetwork {
    /// Kernel arguments for the first boot: `rd.neednet=1`, and arguments copied
    /// literally from the command line of this boot.
    pub arguments: Option<String>,
    /// NetworkManager keyfiles as name and content. They come from the live system or the
    /// ramdisk, or the agent makes them from this boot's plan: if the plan does not come
    /// from kernel arguments, or if GRUB could not pass on the arguments.
    pub keyfiles: Vec<(String, Vec<u8>)>,
}

impl FirstBootNetwork {
    /// Chooses what to pass on from a boot with this command line and this plan.
    /// `profiles` are the keyfiles of a live system; they replace all other files.
    /// Without `profiles`, and if `may_copy` is false, it passes on only arguments, no
    /// files.
    pub(super) fn of_this_boot(
        line: &CommandLine,
        choice: &Choice,
        may_copy: bool,
        profiles: Vec<(String, Vec<u8>)>,
    ) -> Self {
        if !profiles.is_empty() {
            return Self {
                arguments: with_network(&arguments_with_files(line)),
                keyfiles: profiles,
            };
        }
        let has_source = choice.source != Source::Default || choice.has_files();
        if !has_source && !is_changed_default(line) {
            return Self::default();
        }
        Self::handed_on(line, choice, may_copy)
    }

    /// Like [`Self::of_this_boot`] without `profiles`, but also passes on a `BOOTIF=`
    /// that is the only argument, as coreos-installer's boot service does.
    pub fn handed_on(line: &CommandLine, choice: &Choice, may_copy: bool) -> Self {
        if !(choice.has_files() && may_copy) {
            let arguments = with_network(&first_boot_arguments(line));
            // GRUB would parse some arguments as commands, for example a bond's
            // arp_ip_target=192.0.2.1;192.0.2.2. In this case the agent passes on files.
            if !may_copy || arguments.as_deref().is_none_or(firstboot_network::is_plain) {
                return Self {
                    arguments,
                    keyfiles: Vec::new(),
                };
            }
        }
        let files = choice.keyfiles().into_iter();
        Self {
            arguments: with_network(&arguments_with_files(line)),
            keyfiles: files
                .map(|file| (file.name, file.text.into_bytes()))
                .collect(),
        }
    }
}

/// The source and plan of this boot's network, with the names of the NICs added. Without
/// the names, a plan that identifies NICs only by hardware address cannot name the parent
/// of a VLAN or the primary port of a bond in a keyfile.
pub async fn choice_of_this_boot(settings: &Settings) -> Choice {
    let args = NetArgs::from_command_line(&settings.command_line);
    let mut choice = settings.network_choice(&args);
    match landfall_network::observe().await {
        Ok(state) => {
            for nic in state.nics.iter().filter(|nic| !nic.is_virtual) {
                // Prefer the permanent address, because a port of a bond currently has
                // the bond's address.
                let mac = nic.permanent_mac.unwrap_or(nic.mac);
                choice.plan.name_vlans(&nic.name, &[mac]);
            }
            choice.plan.sort();
        }
        Err(error) => {
            tracing::warn!(
                "cannot read the names of the NICs for the installed system's network: {error}"
            );
        }
    }
    choice
}

/// Whether the command line has an argument to pass on other than `BOOTIF=`. `BOOTIF=`
/// comes from a network boot menu, not from an operator. It names the NIC from which the
/// ramdisk booted, but this boot tried every NIC anyway.
fn is_changed_default(line: &CommandLine) -> bool {
    let mut arguments = first_boot_arguments(line).into_iter();
    arguments.any(|text| !text.to_ascii_lowercase().starts_with("bootif="))
}

/// Joins the arguments in the same form as coreos-installer's service. They replace the
/// image's own arguments, so they must also request the network with `rd.neednet=1`.
fn with_network(arguments: &[&str]) -> Option<String> {
    (!arguments.is_empty()).then(|| format!("rd.neednet=1 {}", arguments.join(" ")))
}

#[cfg(test)]
mod tests {
    use landfall_handover::firstboot_keyfiles;
    use landfall_network_plan::{Embedded, Keyfile};

    use super::*;

    const DATA: &str = r#"{"links": [
        {"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}],
        "networks": [{"id": "n", "type": "ipv4_dhcp", "link": "a"}]}"#;

    fn found(line: &str, data: Option<&str>, may_copy: bool) -> FirstBootNetwork {
        let line = CommandLine::parse(line);
        let choice = Choice::for_boot(
            &Embedded::default(),
            data,
            &NetArgs::from_command_line(&line),
        );
        FirstBootNetwork::of_this_boot(&line, &choice, may_copy, Vec::new())
    }

    #[test]
    fn files_for_network_data_else_the_arguments() {
        let line = "quiet ip=eth0:dhcp nameserver=192.0.2.53";
        let arguments = Some("rd.neednet=1 ip=eth0:dhcp nameserver=192.0.2.53");
        for (data, may_copy, files) in [
            (None, true, 0),
            (None, false, 0),
            (Some(DATA), true, 1),
            (Some(DATA), false, 0),
            (Some("{"), true, 0),
        ] {
            let found = found(line, data, may_copy);
            assert_eq!(found.keyfiles.len(), files, "{data:?} {may_copy}");
            let expected = if files == 0 { arguments } else { None };
            assert_eq!(found.arguments.as_deref(), expected, "{data:?} {may_copy}");
        }
        let found = found(line, Some(DATA), true);
        assert_eq!(found.keyfiles[0].0, "52-54-00-00-00-01.nmconnection");
    }

    #[test]
    fn without_network_settings_nothing_is_handed_on() {
        for line in [
            "",
            "quiet",
            "BOOTIF=01-52-54-00-00-00-01",
            "rd.net.timeout.dhcp=5",
        ] {
            let found = found(line, None, true);
            assert_eq!(found, FirstBootNetwork::default(), "{line}");
        }
        let line = CommandLine::parse("BOOTIF=01-52-54-00-00-00-01");
        let choice = Choice::for_boot(
            &Embedded::default(),
            None,
            &NetArgs::from_command_line(&line),
        );
        assert_eq!(
            FirstBootNetwork::handed_on(&line, &choice, true).arguments,
            Some("rd.neednet=1 BOOTIF=01-52-54-00-00-00-01".to_owned())
        );
        let found = found("net.ifnames=0 BOOTIF=01-52-54-00-00-00-01", None, true);
        let expected = "rd.neednet=1 net.ifnames=0 BOOTIF=01-52-54-00-00-00-01";
        assert_eq!(found.arguments.as_deref(), Some(expected));
    }

    #[test]
    fn keyfiles_of_the_ramdisk_go_on_unchanged() {
        for text in [
            "[connection]\nid=lan\ntype=ethernet\ninterface-name=eth0\n# a comment\n",
            // The ramdisk cannot use it.
            "[connection]\nid=lan\ntype=ethernet\ninterface-name=eth0\n[ipv4]\ndns=x\n",
        ] {
            for line in ["ip=dhcp", ""] {
                keyfile_goes_on_unchanged(text, line);
            }
        }
    }

    fn keyfile_goes_on_unchanged(text: &str, line: &str) {
        let embedded = Embedded {
            keyfiles: vec![Keyfile {
                name: "lan.nmconnection".to_owned(),
                text: text.to_owned(),
            }],
            ..Embedded::default()
        };
        let line = CommandLine::parse(line);
        let choice = Choice::for_boot(&embedded, None, &NetArgs::from_command_line(&line));
        let found = FirstBootNetwork::of_this_boot(&line, &choice, true, Vec::new());
        let expected = ("lan.nmconnection".to_owned(), text.as_bytes().to_vec());
        assert_eq!(found.keyfiles, [expected]);
        assert_eq!(found.arguments, None);
    }

    /// In a live system the plan is empty, because the network is NetworkManager's.
    #[test]
    fn keyfiles_of_a_live_system_go_on_unchanged() {
        let file = ("lan.nmconnection".to_owned(), b"[connection]\n".to_vec());
        for (line, arguments) in [
            ("quiet", None),
            ("ip=dhcp rd.neednet=1", None),
            (
                "ip=dhcp net.ifnames=0",
                Some("rd.neednet=1 net.ifnames=0".to_owned()),
            ),
        ] {
            let parsed = CommandLine::parse(line);
            let choice = Choice::for_boot(
                &Embedded::default(),
                None,
                &NetArgs::from_command_line(&parsed),
            );
            let found = FirstBootNetwork::of_this_boot(&parsed, &choice, true, vec![file.clone()]);
            assert_eq!(found.keyfiles, std::slice::from_ref(&file), "{line}");
            assert_eq!(found.arguments, arguments, "{line}");
        }
    }

    /// A file may refer to the name that an argument gives to a NIC.
    #[test]
    fn names_of_nics_go_along_with_files() {
        let line = "ip=dhcp ifname=lan0:52-54-00-00-00-01 net.ifnames=0";
        let found = found(line, Some(DATA), true);
        assert_eq!(
            found.arguments.as_deref(),
            Some("rd.neednet=1 ifname=lan0:52-54-00-00-00-01 net.ifnames=0")
        );
        assert_eq!(found.keyfiles.len(), 1);
    }

    #[test]
    fn arguments_that_grub_would_run_go_as_files() {
        let line = "ip=bond0:dhcp \
            bond=bond0:ens3,ens4:mode=active-backup,arp_interval=100,arp_ip_target=192.0.2.1;192.0.2.2";
        let found = found(line, None, true);
        assert_eq!(found.arguments, None);
        let names: Vec<&str> = found.keyfiles.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(
            names,
            [
                "bond0.nmconnection",
                "ens3.nmconnection",
                "ens4.nmconnection"
            ]
        );
    }

    /// If files may not be copied, the agent rejects the installation before it
    /// touches the disk.
    #[test]
    fn but_not_where_files_may_not_be_copied() {
        let found = found(
            "bond=bond0:ens3:arp_ip_target=192.0.2.1;192.0.2.2",
            None,
            false,
        );
        assert!(found.keyfiles.is_empty());
        assert!(firstboot_network::line(&found.arguments.unwrap()).is_err());
    }

    /// Texts in a document with which an attacker could try to add lines to a keyfile
    /// or change its path.
    #[test]
    fn a_document_writes_no_lines_of_its_own() {
        let evil = "x\\n[connection]\\nmaster=y";
        for (id, mode, option) in [
            (evil, "802.3ad", "fast"),
            ("../../etc/passwd", "802.3ad", "fast"),
            ("bond/0", "802.3ad", "fast"),
            ("bond0", evil, "fast"),
            ("bond0", "802.3ad", evil),
            ("bond0\\u0000", "active-backup", "fast\\r"),
        ] {
            let data = format!(
                r#"{{"links": [
                {{"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}},
                {{"id": "{id}", "type": "bond", "bond_links": ["a"], "bond_mode": "{mode}",
                  "bond_lacp_rate": "{option}"}},
                {{"id": "{id}v", "type": "vlan", "vlan_link": "{id}", "vlan_id": 5}}],
                "networks": [{{"id": "{id}", "type": "ipv4_dhcp", "link": "{id}v"}}]}}"#
            );
            let found = found("", Some(&data), true);
            assert_eq!(found.keyfiles.len(), 3, "{data}");
            firstboot_keyfiles::check(&found.keyfiles).unwrap();
            for (name, content) in &found.keyfiles {
                let text = String::from_utf8(content.clone()).unwrap();
                let sections = text.lines().filter(|line| line.starts_with('['));
                let mut sections: Vec<&str> = sections.collect();
                sections.sort_unstable();
                sections.dedup();
                let count = text.lines().filter(|line| line.starts_with('[')).count();
                assert_eq!(sections.len(), count, "{name}: {text}");
                assert!(
                    !text.contains("=y") && !text.contains('\0'),
                    "{name}: {text}"
                );
                assert!(!text.contains('\r'), "{name}: {text}");
            }
        }
    }
}
