//! The network of this boot, for the first boot of the installed system: where
//! we needed a static address, so does its Ignition.

use landfall_boot_params::coreos_args::first_boot_arguments;
use landfall_boot_params::{CommandLine, NetArgs};
use landfall_network_plan::{Choice, Embedded, Source};

/// In one of the two forms that CoreOS takes: files beat arguments there, as
/// they did here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FirstBootNetwork {
    /// Kernel arguments of the first boot: those of this one, word for word.
    pub(super) arguments: Option<String>,
    /// NetworkManager keyfiles, where the plan is from a file.
    pub(super) keyfiles: Vec<(String, Vec<u8>)>,
}

impl FirstBootNetwork {
    /// Without `may_copy` no files are handed on, but the arguments.
    pub(super) fn of_this_boot(
        line: &CommandLine,
        embedded: &Embedded,
        network_data: Option<&str>,
        may_copy: bool,
    ) -> FirstBootNetwork {
        let choice = Choice::for_boot(embedded, network_data, &NetArgs::from_command_line(line));
        let is_file = matches!(choice.source, Source::Embedded | Source::NetworkData);
        if is_file && may_copy {
            let files = choice.plan.keyfiles().into_iter();
            return FirstBootNetwork {
                arguments: None,
                keyfiles: files
                    .map(|file| (file.name, file.text.into_bytes()))
                    .collect(),
            };
        }
        let arguments = first_boot_arguments(line);
        FirstBootNetwork {
            arguments: (!arguments.is_empty())
                .then(|| format!("rd.neednet=1 {}", arguments.join(" "))),
            keyfiles: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = r#"{"links": [
        {"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}],
        "networks": [{"id": "n", "type": "ipv4_dhcp", "link": "a"}]}"#;

    #[test]
    fn files_for_network_data_else_the_arguments() {
        let line = CommandLine::parse("quiet ip=eth0:dhcp nameserver=192.0.2.53");
        let arguments = Some("rd.neednet=1 ip=eth0:dhcp nameserver=192.0.2.53".to_owned());
        for (data, copy, files) in [
            (None, true, 0),
            (Some(DATA), true, 1),
            (Some(DATA), false, 0),
            (Some("{"), true, 0),
        ] {
            let found = FirstBootNetwork::of_this_boot(&line, &Embedded::default(), data, copy);
            assert_eq!(found.keyfiles.len(), files, "{data:?} {copy}");
            let expected = if files == 0 { &arguments } else { &None };
            assert_eq!(found.arguments, *expected, "{data:?} {copy}");
        }
        let found = FirstBootNetwork::of_this_boot(&line, &Embedded::default(), Some(DATA), true);
        assert_eq!(found.keyfiles[0].0, "52-54-00-00-00-01.nmconnection");
        let quiet = CommandLine::parse("quiet");
        let nothing = FirstBootNetwork::of_this_boot(&quiet, &Embedded::default(), None, true);
        assert_eq!(nothing, FirstBootNetwork::default());
    }
}
