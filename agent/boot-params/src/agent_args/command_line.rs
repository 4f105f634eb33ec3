//! Reads settings from a kernel command line.

use super::all_names;
use super::assign::GivenText;
use super::names::{BOOTIF, MAX_UNKNOWN};
use super::table::BootParams;
use crate::cmdline::{CommandLine, MAX_LENGTH, Token};
use crate::coreos_inst::OWN_PREFIX;
use crate::mac::BootInterface;
use crate::nearest_name::nearest;
use crate::setting::{Origin, Setting};

impl BootParams {
    /// Reads a command line. If an argument cannot be parsed, adds a warning and keeps
    /// the default of the setting.
    pub fn from_command_line(line: &CommandLine) -> BootParams {
        let mut params = BootParams::default();
        params.read_command_line(line);
        params
    }

    /// Reads a command line, which overrides the sources that were read before.
    pub fn read_command_line(&mut self, line: &CommandLine) {
        if line.was_cut() {
            self.warnings.push(format!(
                "kernel command line is longer than {MAX_LENGTH} bytes; the rest is ignored"
            ));
        }
        self.read_arguments(line, || Origin::KernelArgument(String::new()));
    }

    pub(super) fn read_arguments(&mut self, line: &CommandLine, origin: impl Fn() -> Origin) {
        let mut bare = Vec::new();
        for name in all_names().filter_map(|names| names.argument) {
            // Ironic's agent skips arguments without `=`. But `landfall.NAME` without `=`
            // is a switch that is on, as is usual on a kernel command line.
            if let Some(token) = line.last(name)
                && token.value.is_none()
                && !name.starts_with("landfall.")
            {
                bare.push(format!("{name}: has no value; ignored"));
            }
        }
        self.warnings.append(&mut bare);
        self.assign_each(|names| {
            let name = names.argument?;
            let token = line.last(name)?;
            let text = match &token.value {
                Some(text) => text.as_str(),
                None if name.starts_with("landfall.") => "1",
                None => return None,
            };
            Some(GivenText {
                name: format!("{name}="),
                text,
                origin: origin(),
                // A template of a boot configuration leaves the text after `=` empty if
                // it has no value for the argument.
                empty_counts: false,
            })
        });
        self.read_boot_interface(line, origin());
        self.report_unknown(line);
    }

    /// Reads `BOOTIF` in any letter case, as NetworkManager does.
    fn read_boot_interface(&mut self, line: &CommandLine, origin: Origin) {
        let last = line.tokens().iter().rev();
        let Some(token) = last
            .into_iter()
            .find(|t| t.key.eq_ignore_ascii_case(BOOTIF))
        else {
            return;
        };
        let text = token.value_or_empty();
        if text.is_empty() {
            return;
        }
        // An error is ignored here: `NetArgs` reads the same argument and reports the
        // error.
        if let Ok(interface) = BootInterface::parse(text) {
            self.boot_interface = Setting {
                value: Some(interface),
                origin: match origin {
                    Origin::KernelArgument(_) => Origin::KernelArgument(token.text.clone()),
                    other => other,
                },
            }
        }
    }

    /// Warns about unknown names with the prefixes `ipa-` and `landfall.`. No other
    /// program uses these prefixes, so an unknown name is most likely a typo. The warning
    /// does not contain the value, since the value may be a secret.
    fn report_unknown(&mut self, line: &CommandLine) {
        let known = || all_names().filter_map(|names| names.argument);
        let mut seen: Vec<&str> = Vec::new();
        for Token { key, .. } in line.tokens() {
            let ours = key.starts_with("ipa-")
                || (key.starts_with("landfall.") && !key.starts_with(OWN_PREFIX));
            if seen.len() == MAX_UNKNOWN {
                return;
            }
            if !ours || known().any(|name| name == key) || seen.contains(&key.as_str()) {
                continue;
            }
            seen.push(key);
            self.warnings.push(match nearest(key, known()) {
                Some(name) => format!("{key}: unknown name; ignored -- did you mean {name}?"),
                None => format!("{key}: unknown name; ignored"),
            });
        }
    }
}
