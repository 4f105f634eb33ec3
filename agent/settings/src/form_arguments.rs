//! The network that an operator has given in the form on a console, as kernel arguments.

use std::path::Path;

use landfall_boot_params::CommandLine;
use landfall_sys::state_file::StateFile;

/// The name of the state file, from which a restarted agent reads the arguments.
const NAME: &str = "form-arguments";

/// The kernel arguments that the form replaces. All others stay in effect, because they
/// do not depend on the addresses: for example `ifname=` and the time limits of DHCP.
const REPLACED: &[&str] = &[
    "ip",
    "vlan",
    "bond",
    "bridge",
    "team",
    "ib.pkey",
    "nameserver",
    "rd.net.dns",
    "rd.route",
    "rd.iscsi.ibft",
    "bootdev",
];

/// The arguments that the form has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormArguments(pub String);

impl FormArguments {
    /// The arguments that were stored during this boot. `None` also if the file cannot be
    /// read or is not UTF-8.
    pub fn load(directory: &Path) -> Option<Self> {
        match StateFile::new(directory, NAME).load() {
            Ok(Some(bytes)) => String::from_utf8(bytes).ok().map(Self),
            Ok(None) => None,
            Err(error) => {
                tracing::warn!("cannot read what the form on the console has given: {error}");
                None
            }
        }
    }

    /// Keeps the arguments until the machine is reset.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn store(&self, directory: &Path) -> std::io::Result<()> {
        StateFile::new(directory, NAME).store(self.0.as_bytes())
    }

    /// The command line, with its network arguments replaced by those of the form.
    pub(crate) fn replace_network_of(&self, command_line: &CommandLine) -> CommandLine {
        let others = command_line.without(REPLACED);
        others.followed_by(self.command_line())
    }

    /// The value of the last argument of the form with the name `key`.
    pub fn value(&self, key: &str) -> Option<String> {
        let line = self.command_line();
        line.last(key)
            .map(|token| token.value_or_empty().to_owned())
    }

    pub(crate) fn command_line(&self) -> CommandLine {
        CommandLine::parse(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_replaces_the_network_and_nothing_else() {
        let boot = CommandLine::parse(
            "console=ttyS0 ip=192.0.2.10::192.0.2.1:24::eth0.5:none vlan=eth0.5:eth0 \
             nameserver=192.0.2.1 ifname=eth0:52:54:00:00:00:01 ipa-debug=1",
        );
        let form = FormArguments("vlan=vlan7:eth0 ip=vlan7:dhcp".to_owned());
        let replaced = form.replace_network_of(&boot);
        let tokens = replaced.tokens().iter();
        let texts: Vec<&str> = tokens.map(|token| token.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "console=ttyS0",
                "ifname=eth0:52:54:00:00:00:01",
                "ipa-debug=1",
                "vlan=vlan7:eth0",
                "ip=vlan7:dhcp"
            ]
        );
    }

    #[test]
    fn stored_arguments_are_loaded() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(FormArguments::load(directory.path()), None);
        let form = FormArguments("ip=eth0:dhcp".to_owned());
        form.store(directory.path()).unwrap();
        assert_eq!(FormArguments::load(directory.path()), Some(form));
    }
}
