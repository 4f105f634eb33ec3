//! Checks a [`ConfigIgn`] that another process has made, because that process is not
//! trusted: each part must have a path that this crate would have accepted for it.

use landfall_boot_params::argument_value::{ArgumentValue as _, NtpServer};
use landfall_boot_params::dracut_net::is_host_name;

use crate::place::Place;
use crate::{ConfigIgn, GivenFile, LONGEST_LINE, MOST_LINES};

impl ConfigIgn {
    /// Whether this crate could have made this value from a config. The caller writes the
    /// files to their paths, and prints the lines on the console.
    pub fn is_plausible(&self) -> bool {
        let at = |files: &[GivenFile], place: Place<'_>| {
            files.iter().all(|file| Place::of(&file.path) == place)
        };
        let is_name = |name: &str| {
            let path = format!("/etc/NetworkManager/system-connections/{name}");
            Place::of(&path) == Place::Keyfile(name)
        };
        let is_line = |line: &String| {
            line.chars().count() <= LONGEST_LINE && !line.chars().any(char::is_control)
        };
        let lists = [&self.applied, &self.not_applied, &self.not_needed];
        at(&self.agent_files, Place::AgentFile)
            && at(&self.companions, Place::Companion)
            && self.keyfiles.iter().all(|file| is_name(&file.path))
            && self.authorities.iter().all(|file| is_authority(&file.path))
            && self.has_plausible_time_servers()
            && self.host_name.as_deref().is_none_or(is_host_name)
            && { lists.iter() }.all(|list| list.len() <= MOST_LINES + 1 && list.iter().all(is_line))
    }

    fn has_plausible_time_servers(&self) -> bool {
        let place = Place::of(&self.ntp_path);
        match self.ntp_servers.as_slice() {
            [] => self.ntp_path.is_empty(),
            [server] => {
                NtpServer::parse(server).is_some()
                    && [Place::Chrony, Place::Timesyncd].contains(&place)
            }
            _ => false,
        }
    }
}

/// Whether this can be the path of a certificate authority: an absolute path, or the
/// position of the authority in a config.
fn is_authority(path: &str) -> bool {
    let is_index = |text: &str| text.parse::<usize>().is_ok();
    let index = { path.strip_prefix("ignition.security.tls.certificateAuthorities[") }
        .and_then(|rest| rest.strip_suffix(']'));
    Place::of(path) == Place::Authority || index.is_some_and(is_index)
}

/// The content of a file as Base64: a list of numbers would be three times as long.
pub(crate) mod base64_text {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        BASE64_STANDARD.decode(text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_files(files: &[(String, String)]) -> ConfigIgn {
        let files: Vec<_> = { files.iter() }
            .map(|(path, content)| {
                let escaped: String = content.bytes().map(|byte| format!("%{byte:02x}")).collect();
                serde_json::json!({"path": path, "contents": {"source": format!("data:,{escaped}")}})
            })
            .collect();
        let authority = serde_json::json!({"source": "data:,a"});
        let config = serde_json::json!({
            "ignition": {
                "version": "3.4.0",
                "security": {"tls": {"certificateAuthorities": [authority, authority]}},
            },
            "storage": {"files": files},
        });
        ConfigIgn::read(config.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn long_names_are_plausible() {
        let server = [
            "a".repeat(60),
            "b".repeat(60),
            "c".repeat(60),
            "d".repeat(57),
        ]
        .join(".");
        let authority = format!("/etc/pki/ca-trust/source/anchors/{}", "e".repeat(184));
        let servers = format!("/etc/chrony.d/{}", "f".repeat(250));
        let made = with_files(&[
            (authority.clone(), String::new()),
            (servers.clone(), format!("server {server}")),
        ]);
        assert_eq!((authority.len(), server.len()), (217, 240));
        assert_eq!(made.authorities[0].path, authority);
        assert_eq!(
            (&made.ntp_path, &made.ntp_servers),
            (&servers, &vec![server])
        );
        assert!(made.is_plausible());
    }

    proptest! {
        #[test]
        fn every_result_of_this_crate_is_plausible(
            files in proptest::collection::vec((
                prop::sample::select(vec![
                    "", "/", "/etc/", "/etc/landfall/", "/etc/ironic-python-agent/",
                    "/etc/NetworkManager/system-connections/", "/etc/pki/ca-trust/source/anchors/",
                    "/etc/chrony.d/", "/etc/systemd/timesyncd.conf.d/",
                ]),
                prop_oneof![any::<String>(), "[a-zäé .]{0,130}", "[a-z./]{0,260}", "hostname"],
                prop::sample::select(vec!["", ".conf", ".nmconnection"]),
                prop::sample::select(vec!["", "server ", "NTP="]),
                prop_oneof![any::<String>(), "[a-z]{1,63}(\\.[a-z0-9:]{1,63}){0,4}"],
            ), 0..80),
        ) {
            let files: Vec<_> = { files.into_iter() }
                .map(|(directory, name, end, key, value)| {
                    (format!("{directory}{name}{end}"), format!("{key}{value}"))
                })
                .collect();
            let made = with_files(&files);
            prop_assert!(made.is_plausible(), "{:?}", made);
        }
    }

    #[test]
    fn only_results_of_this_crate_are_plausible() {
        let json = br#"{"ignition": {"version": "3.4.0"}, "storage": {"files": [
            {"path": "/etc/ironic-python-agent.conf", "contents": {"source": "data:,a"}},
            {"path": "/etc/ironic-python-agent/ca.pem", "contents": {"source": "data:,b"}},
            {"path": "/etc/NetworkManager/system-connections/e.nmconnection",
             "contents": {"source": "data:,c"}},
            {"path": "/etc/pki/ca-trust/source/anchors/d.pem", "contents": {"source": "data:,d"}},
            {"path": "/etc/chrony.conf", "contents": {"source": "data:,server%20a%0aserver%20b"}},
            {"path": "/etc/other", "contents": {"source": "data:,e"}}]}}"#;
        let made = ConfigIgn::read(json).unwrap();
        assert!(made.is_plausible());
        let sent = serde_json::to_string(&made).unwrap();
        assert_eq!(serde_json::from_str::<ConfigIgn>(&sent).unwrap(), made);

        let file = |path: &str| GivenFile {
            path: path.to_owned(),
            content: Vec::new(),
        };
        type Change = fn(&mut ConfigIgn, GivenFile);
        let wrong: [(Change, &str); 14] = [
            (|it, file| it.companions.push(file), "/init"),
            (
                |it, file| it.companions.push(file),
                "/etc/landfall/../../init",
            ),
            (|it, file| it.companions.push(file), "/etc/landfall/a.conf"),
            (|it, file| it.agent_files.push(file), "/etc/passwd"),
            (|it, file| it.keyfiles.push(file), "../a.nmconnection"),
            (|it, file| it.keyfiles.push(file), "a"),
            (|it, file| it.applied.push(file.path), "\u{1b}[2J"),
            (|it, file| it.not_needed = vec![file.path; 100], "a"),
            (|it, file| it.authorities.push(file), "/etc/passwd"),
            (
                |it, file| it.authorities.push(file),
                "ignition.security.tls.certificateAuthorities[\u{1b}]",
            ),
            (|it, file| it.ntp_servers = vec![file.path], "a;b"),
            (|it, file| it.ntp_servers = vec![file.path; 2], "a"),
            (|it, file| it.ntp_path = file.path, "/etc/passwd"),
            (|it, file| it.ntp_path = file.path, ""),
        ];
        for (change, path) in wrong {
            let mut config = made.clone();
            change(&mut config, file(path));
            assert!(!config.is_plausible(), "{path:?}");
        }
    }
}
