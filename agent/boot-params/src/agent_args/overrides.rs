//! Settings that the agent receives while it runs. They override all sources that were
//! read before.

use super::all_names;
use super::assign::GivenText;
use super::table::BootParams;
use crate::nearest_name::nearest;
use crate::setting::Origin;

impl BootParams {
    /// Sets one option, for example from a lookup answer or from config.ign. `option` is
    /// its name in oslo.config: `tls_min_version`, or `mdns.interfaces` with a group. An
    /// empty value removes the value of another source, and is invalid if the type has no
    /// empty value. Returns the warnings about what was ignored, and leaves
    /// [`warnings`](Self::warnings) unchanged.
    pub fn apply_override(&mut self, option: &str, value: &str, origin: Origin) -> Vec<String> {
        let option = option.replace('-', "_");
        let known = || all_names().filter_map(|names| names.option);
        if !known().any(|name| name == option) {
            return vec![match nearest(&option, known()) {
                Some(name) => {
                    format!("{origin}: {option}: unknown name; ignored -- did you mean {name}?")
                }
                None => format!("{origin}: {option}: unknown name; ignored"),
            }];
        }
        let before = self.warnings.len();
        self.assign_each(|names| {
            (names.option == Some(option.as_str())).then(|| GivenText {
                name: format!("{origin}: {option} = "),
                text: value,
                origin: origin.clone(),
                empty_counts: true,
            })
        });
        self.warnings.split_off(before)
    }

    /// Applies one key of an mDNS answer: `ipa_<option>`. Accepts only the options of
    /// `mdns.allowed_overrides`, since mDNS answers are not authenticated. Skips keys
    /// without the prefix `ipa_`. Returns the warnings about what was ignored.
    pub fn apply_mdns(&mut self, key: &str, value: &str) -> Vec<String> {
        let Some(option) = key.strip_prefix("ipa_") else {
            return Vec::new();
        };
        let option = option.replace('-', "_");
        let allowed = &self.mdns_allowed_overrides.value;
        if !allowed.iter().any(|name| name.replace('-', "_") == option) {
            let allowed = allowed.join(", ");
            return vec![format!(
                "{}: {option}: not one of the allowed overrides ({allowed}); ignored",
                Origin::Mdns
            )];
        }
        self.apply_override(&option, value, Origin::Mdns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argument_value::{ServiceUrls, TlsVersion};
    use crate::cmdline::CommandLine;

    #[test]
    fn an_override_wins_and_says_who_it_is() {
        let line = CommandLine::parse("ipa-tls-min-version=1.2 ipa-tls-cipher-suites=A");
        let mut params = BootParams::from_command_line(&line);
        let none: [String; 0] = [];
        assert_eq!(
            params.apply_override("tls-min-version", "1.3", Origin::Lookup),
            none
        );
        assert_eq!(params.tls_min_version.value, TlsVersion::V1_3);
        assert_eq!(params.tls_min_version.origin.to_string(), "lookup");
        params.apply_override("tls_cipher_suites", "", Origin::Lookup);
        assert_eq!(params.tls_cipher_suites.value, None);
        params.apply_override("mdns.interfaces", "a, b", Origin::Lookup);
        assert_eq!(params.mdns_interfaces.value, ["a", "b"]);
        params.apply_override("heartbeat_timeout", "30", Origin::Lookup);
        assert_eq!(params.heartbeat_timeout.as_secs(), 30);
    }

    #[test]
    fn an_invalid_override_is_reported_and_ignored() {
        let mut params = BootParams::default();
        for (option, value, warning) in [
            (
                "tls_min_version",
                "1.1",
                "lookup: tls_min_version = 1.1: expected 1.2 or 1.3; default used (1.2)",
            ),
            (
                "tls_min_versoin",
                "1.3",
                "lookup: tls_min_versoin: unknown name; ignored -- did you mean tls_min_version?",
            ),
            ("x", "1", "lookup: x: unknown name; ignored"),
            (
                "boot_method",
                "vmedia",
                "lookup: boot_method: unknown name; ignored",
            ),
        ] {
            assert_eq!(
                params.apply_override(option, value, Origin::Lookup),
                [warning]
            );
        }
        assert_eq!(params, BootParams::default());
    }

    #[test]
    fn mdns_may_say_only_what_it_is_allowed_to() {
        let mut params = BootParams::default();
        let url = "http://192.0.2.1/v1/continue_inspection";
        for key in ["path", "protocol", "IPA_insecure", "insecure"] {
            assert_eq!(params.apply_mdns(key, "1"), [""; 0], "{key}");
        }
        assert_eq!(
            params.apply_mdns("ipa_insecure", "1"),
            [
                "mDNS: insecure: not one of the allowed overrides (inspection_callback_url, ntp_server); ignored"
            ]
        );
        assert_eq!(params, BootParams::default());
        assert_eq!(
            params.apply_mdns("ipa_inspection_callback_url", url),
            [""; 0]
        );
        assert_eq!(
            params.inspection_callback_url.value,
            Some(ServiceUrls::Urls(vec![url.into()]))
        );
        assert_eq!(params.inspection_callback_url.origin.to_string(), "mDNS");
        assert_eq!(params.apply_mdns("ipa_ntp_server", "a b").len(), 1);

        params.apply_override("mdns.allowed_overrides", "debug", Origin::Default);
        params.apply_mdns("ipa_debug", "True");
        assert!(params.wants_debug());
    }
}
