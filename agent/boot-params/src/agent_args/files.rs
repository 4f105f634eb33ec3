//! Reads settings from configuration files and from `parameters.txt`.

use std::collections::BTreeMap;

use super::all_names;
use super::assign::GivenText;
use super::names::MAX_UNKNOWN;
use super::table::BootParams;
use crate::cmdline::CommandLine;
use crate::ini_file::{Assignment, IniFile, without_escapes};
use crate::nearest_name::nearest;
use crate::setting::Origin;

/// Longest `parameters.txt` that is read, in bytes.
pub const MAX_PARAMETERS: usize = 64 << 10;

impl BootParams {
    /// Reads a configuration file. It overrides files read before and kernel arguments,
    /// except `ipa-debug`. `path` is the file's name in origins and warnings. A value
    /// that cannot be parsed becomes a warning.
    pub fn read_file(&mut self, path: &str, text: &str) {
        let file = IniFile::parse(text);
        for (line, fault) in &file.faults {
            self.warnings.push(format!("{path}: line {line}: {fault}"));
        }
        let last: BTreeMap<String, &str> = file
            .assignments
            .iter()
            .map(|assignment| (option_name(assignment), assignment.value.as_str()))
            .collect();
        let mut values = BTreeMap::new();
        for (name, value) in last {
            match without_escapes(value) {
                Some(value) => drop(values.insert(name, value)),
                None if names_option(&name).is_none() => {}
                None => self.warnings.push(format!(
                    "{path}: {name}: references to other options ($name) are not supported; ignored"
                )),
            }
        }
        // In Ironic's agent the kernel argument `ipa-debug` overrides the file.
        // `parameters.txt` contains kernel arguments, too.
        if matches!(
            self.debug.origin,
            Origin::KernelArgument(_) | Origin::Parameters(_)
        ) {
            values.remove("debug");
        }
        self.report_mistyped(path, &values);
        self.assign_each(|names| {
            let option = names.option.filter(|_| !names.only_in_lookup)?;
            let (name, value) = values.get_key_value(option)?;
            Some(GivenText {
                name: format!("{path}: {name} = "),
                text: value,
                origin: Origin::File(path.to_owned()),
                empty_counts: true,
            })
        });
    }

    /// Warns about misspelt options. The file may also contain options of oslo.config
    /// itself and of other OpenStack libraries. So this function reports only names that
    /// closely resemble an option of the agent.
    fn report_mistyped(&mut self, path: &str, values: &BTreeMap<String, String>) {
        let unknown = values.keys().filter(|name| names_option(name).is_none());
        for name in unknown.take(MAX_UNKNOWN) {
            if let Some(meant) = nearest(name, options()) {
                self.warnings.push(format!(
                    "{path}: {name}: unknown name; ignored -- did you mean {meant}?"
                ));
            }
        }
    }

    /// Reads `parameters.txt` of virtual media, which overrides the kernel
    /// arguments. `device` is the device that holds the file.
    pub fn read_parameters(&mut self, device: &str, text: &str) {
        let mut end = text.len().min(MAX_PARAMETERS);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let origin = || Origin::Parameters(device.to_owned());
        if end < text.len() {
            self.warnings.push(format!(
                "{}: longer than {MAX_PARAMETERS} bytes; the rest is ignored",
                origin()
            ));
        }
        self.read_arguments(&CommandLine::parse_lines(&text[..end]), origin);
    }

    /// Checks settings that depend on each other: warns about an incomplete set and
    /// unsets it. The caller calls this after it has read all sources.
    pub fn check_together(&mut self) {
        if self.certfile.is_some() != self.keyfile.is_some() {
            let (given, missing) = match &self.certfile.value {
                Some(_) => ("certfile", "keyfile"),
                None => ("keyfile", "certfile"),
            };
            self.warnings.push(format!(
                "{given}: expected {missing} as well; no client certificate is used"
            ));
            self.certfile.value = None;
            self.keyfile.value = None;
        }
        if *self.listen_tls && (self.tls_cert_file.is_none() || self.tls_key_file.is_none()) {
            self.warnings.push(
                "listen_tls: expected tls_cert_file and tls_key_file as well; ignored".to_owned(),
            );
            self.listen_tls.value = false;
        }
    }
}

/// The options that a file can set.
fn options() -> impl Iterator<Item = &'static str> {
    let in_files = all_names().filter(|names| !names.only_in_lookup);
    in_files.filter_map(|names| names.option)
}

fn names_option(name: &str) -> Option<&'static str> {
    options().find(|option| *option == name)
}

/// The name in the form of [`Names::option`](super::names::Names::option). A file may
/// write a name with hyphens, since oslo.config registers some of its options that
/// way.
fn option_name(assignment: &Assignment) -> String {
    let option = assignment.option.replace('-', "_");
    match assignment.group.as_str() {
        "DEFAULT" => option,
        group => format!("{group}.{option}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argument_value::ServiceUrls;

    fn of_line(text: &str) -> BootParams {
        BootParams::from_command_line(&CommandLine::parse(text))
    }

    #[test]
    fn a_file_wins_over_kernel_arguments_but_for_debug() {
        let mut params = of_line("ipa-insecure=1 ipa-debug=0 ipa-listen-port=1 ipa-ntp-server=a");
        params.read_file(
            "/etc/a.conf",
            "[DEFAULT]\ninsecure = False\ndebug = true\nlisten_port = 2\nlisten-port = 3\n\
             guard-special-filesystems = no\nntp_server =\n[mdns]\nuse-mdns = on\n\
             [landfall]\ncoreos_image = http://h/i.raw\n[lookup]\nx = 1\n",
        );
        params.read_file("/etc/b.conf", "[DEFAULT]\nlisten_port = 4\n");
        assert_eq!(params.warnings, [""; 0]);
        assert!(!*params.insecure && !*params.debug && *params.use_mdns);
        assert!(!*params.guard_special_filesystems);
        assert_eq!(*params.listen_port, 4);
        assert_eq!(params.listen_port.origin.to_string(), "/etc/b.conf");
        assert_eq!(params.insecure.origin.to_string(), "/etc/a.conf");
        assert_eq!(params.ntp_server.value, None);
        assert!(params.coreos_image.is_some());

        let mut params = of_line("");
        params.read_file("f", "[DEFAULT]\ndebug = true\n");
        assert!(*params.debug);
    }

    #[test]
    fn the_file_that_openshift_writes() {
        let mut params = of_line("");
        params.read_file(
            "/etc/ironic-python-agent.conf",
            include_str!("../../test_data/ini/openshift.conf"),
        );
        assert_eq!(params.warnings, [""; 0]);
        assert!(*params.insecure);
        assert_eq!(params.inspection_callback_url.value, None);
        assert_eq!(params.enable_vlan_interfaces.value, ["all"]);
        let Some(ServiceUrls::Urls(urls)) = &params.api_url.value else {
            panic!("{:?}", params.api_url);
        };
        assert_eq!(urls.len(), 2);
        // `openshift.conf` configures collectors, so Ironic at `api_url` gets the
        // inventory.
        assert_eq!(
            params.inspection_urls(),
            Some(ServiceUrls::Urls(vec![
                "https://192.0.2.1:6385/v1/continue_inspection".into(),
                "https://[2001:db8::1]:6385/v1/continue_inspection".into(),
            ]))
        );
        assert_eq!(of_line("ipa-api-url=http://h").inspection_urls(), None);
    }

    #[test]
    fn each_invalid_line_is_reported_once() {
        let mut params = of_line("ipa-listen-port=1");
        let before = params.clone();
        let secret = "S3CRET";
        params.read_file(
            "/etc/a.conf",
            &format!(
                "[DEFAULT]\nlisten_port = x\nlisten_port = 70000\nenable_auto_tls =\n\
                 api_url = ftp://u:{secret}@h\napi_ulr = http://h\nlog_dir = $home\n\
                 use_syslog = 1\nheartbeat_timeout = 5\nbroken\n"
            ),
        );
        assert_eq!(
            params.warnings,
            [
                "/etc/a.conf: line 10: expected NAME = VALUE; ignored",
                "/etc/a.conf: log_dir: references to other options ($name) are not supported; ignored",
                "/etc/a.conf: api_ulr: unknown name; ignored -- did you mean api_url?",
                "/etc/a.conf: api_url = ftp://***@h: expected \"mdns\" or http:// or https:// URLs joined by commas; default used (none)",
                "/etc/a.conf: listen_port = 70000: expected a number from 0 to 65535; 1 used (kernel argument ipa-listen-port=1)",
                "/etc/a.conf: enable_auto_tls = : expected a boolean (1 or 0, true or false, yes or no, on or off); default used (1)",
            ]
        );
        params.warnings.clear();
        assert_eq!(params, before);
    }

    #[test]
    fn parameters_txt_wins_over_the_kernel_arguments_and_not_over_files() {
        let mut params = of_line("ipa-listen-port=1 ipa-lookup-timeout=5 ipa-debug=1");
        params.read_parameters(
            "/dev/sr1",
            "ipa-listen-port=2\r\nipa-agent-token=t0k3n\n\nipa-api-url=http://h ipa-debug=0\n\
             BOOTIF=52:54:00:00:00:01\nsshkey=\"ssh-rsa AAA x\nipa-fo=1\n",
        );
        assert_eq!(params.warnings, ["ipa-fo: unknown name; ignored"]);
        params.read_file("f", "[DEFAULT]\napi_url = http://i\ndebug = 1\n");
        assert_eq!((*params.listen_port, *params.debug), (2, false));
        assert_eq!(
            params.listen_port.origin.to_string(),
            "parameters.txt on /dev/sr1"
        );
        assert_eq!(
            params.boot_interface.origin.to_string(),
            "parameters.txt on /dev/sr1"
        );
        assert_eq!(params.lookup_timeout.as_secs(), 5);
        assert_eq!(params.api_url.origin.to_string(), "f");
        assert!(!format!("{:?}", params.list()).contains("t0k3n"));
    }

    #[test]
    fn settings_that_require_each_other() {
        let mut params = of_line("");
        params.read_file(
            "f",
            "[DEFAULT]\ncertfile = /c\nlisten_tls = 1\ntls_cert_file = /c\n",
        );
        params.check_together();
        assert_eq!(
            params.warnings,
            [
                "certfile: expected keyfile as well; no client certificate is used",
                "listen_tls: expected tls_cert_file and tls_key_file as well; ignored",
            ]
        );
        assert!(params.certfile.is_none() && !*params.listen_tls);
    }
}
