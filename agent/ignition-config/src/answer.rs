//! A [`ConfigIgn`] that another process has made. Nothing in it is believed: a part must
//! be in a place where this crate would have put it.

use landfall_boot_params::dracut_net::is_host_name;

use crate::place::Place;
use crate::{ConfigIgn, GivenFile, LONGEST_LINE, MOST_LINES};

impl ConfigIgn {
    /// Whether this crate could have made it of some config. Its files are written to their
    /// paths, and its lines to the console.
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
            && self.authorities.iter().all(|file| is_line(&file.path))
            && self.ntp_servers.len() <= 1
            && self.ntp_servers.iter().chain([&self.ntp_path]).all(is_line)
            && self.host_name.as_deref().is_none_or(is_host_name)
            && { lists.iter() }.all(|list| list.len() <= MOST_LINES + 1 && list.iter().all(is_line))
    }
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
    use super::*;

    #[test]
    fn only_what_this_crate_makes_is_plausible() {
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
        let wrong: [(Change, &str); 8] = [
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
        ];
        for (change, path) in wrong {
            let mut config = made.clone();
            change(&mut config, file(path));
            assert!(!config.is_plausible(), "{path:?}");
        }
    }
}
