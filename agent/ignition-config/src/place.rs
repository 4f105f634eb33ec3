//! Decides by the path of a file what the agent does with the file.

/// Directories of the agent's configuration, with their slashes.
const AGENT: &[&str] = &[
    "/etc/landfall/",
    "/etc/ironic-python-agent.d/",
    "/etc/ironic-python-agent/",
];
const KEYFILES: &str = "/etc/NetworkManager/system-connections/";
const SUFFIX: &str = ".nmconnection";
const AUTHORITIES: &str = "/etc/pki/ca-trust/source/anchors/";
const CHRONY: &[&str] = &[
    "/etc/chrony.d/",
    "/etc/chrony/conf.d/",
    "/etc/chrony/sources.d/",
];
const CHRONY_FILES: &[&str] = &["/etc/chrony.conf", "/etc/chrony/chrony.conf"];
const TIMESYNCD: &str = "/etc/systemd/timesyncd.conf.d/";
/// The directories of texts that are shown at login.
const MESSAGES: &[&str] = &["/etc/issue.d/", "/etc/motd.d/"];

/// The longest file name, in bytes.
const LONGEST_NAME: usize = 255;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// A configuration file of the agent.
    AgentFile,
    /// Another file in a directory of the agent.
    Companion,
    /// A profile of NetworkManager with this name.
    Keyfile(&'a str),
    Authority,
    Chrony,
    Timesyncd,
    HostName,
    /// NetworkManager's DHCP identifiers.
    ClientId,
    /// The ramdisk does not need the file. Holds the reason.
    NotNeeded(&'static str),
    /// The agent does not apply the file. Holds the reason.
    Other(&'static str),
}

impl Place<'_> {
    pub(crate) fn of(path: &str) -> Place<'_> {
        if !is_plain(path) {
            return Place::Other("expected an absolute path without . and ..");
        }
        let name_in = |directory: &str| {
            let name = path.strip_prefix(directory)?;
            (!name.contains('/') && !name.starts_with('.')).then_some(name)
        };
        let is_in = |directories: &[&str]| directories.iter().any(|d| name_in(d).is_some());
        match path {
            "/etc/ironic-python-agent.conf" => return Place::AgentFile,
            "/etc/hostname" => return Place::HostName,
            "/etc/systemd/timesyncd.conf" => return Place::Timesyncd,
            "/etc/NetworkManager/conf.d/clientid.conf" => return Place::ClientId,
            "/etc/NetworkManager/dispatcher.d/01-hostname" => {
                return Place::NotNeeded("the agent takes the host name from ironic-agent.service");
            }
            "/etc/containers/registries.conf" | "/etc/authfile.json" => {
                return Place::Other("the ramdisk pulls no containers");
            }
            _ => {}
        }
        if is_in(AGENT) {
            return match path.ends_with(".conf") {
                true => Place::AgentFile,
                false => Place::Companion,
            };
        }
        if let Some(name) = name_in(KEYFILES) {
            return match name.ends_with(SUFFIX) && name != SUFFIX {
                true => Place::Keyfile(name),
                false => Place::Other("expected a name that ends in .nmconnection"),
            };
        }
        if name_in(AUTHORITIES).is_some() {
            return Place::Authority;
        }
        if is_in(CHRONY) || CHRONY_FILES.contains(&path) {
            return Place::Chrony;
        }
        if name_in(TIMESYNCD).is_some() {
            return Place::Timesyncd;
        }
        if is_in(MESSAGES) {
            return Place::NotNeeded("the console of the ramdisk has its own text");
        }
        if path.starts_with("/etc/coreos/installer.d/") {
            return Place::Other("the ramdisk reads such files only from its own archive");
        }
        Place::Other("the agent has no use for it")
    }
}

/// Whether the path is absolute and all its parts are plain names.
fn is_plain(path: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part.len() <= LONGEST_NAME
            && !part.contains(|c: char| c.is_control())
    };
    path.strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_of_known_places() {
        let plain = "expected an absolute path without . and ..";
        let no_use = "the agent has no use for it";
        let containers = "the ramdisk pulls no containers";
        for (path, expected) in [
            ("/etc/ironic-python-agent.conf", Place::AgentFile),
            ("/etc/ironic-python-agent.d/a.conf", Place::AgentFile),
            ("/etc/ironic-python-agent/ironic.crt", Place::Companion),
            ("/etc/ironic-python-agent/a/b.conf", Place::Other(no_use)),
            ("/etc/landfall/site.conf", Place::AgentFile),
            ("/etc/landfall/hosts/a.json", Place::Other(no_use)),
            (
                "/etc/NetworkManager/system-connections/a.nmconnection",
                Place::Keyfile("a.nmconnection"),
            ),
            (
                "/etc/NetworkManager/system-connections/a",
                Place::Other("expected a name that ends in .nmconnection"),
            ),
            (
                "/etc/NetworkManager/system-connections/../a.nmconnection",
                Place::Other(plain),
            ),
            (
                "/etc/NetworkManager/system-connections/.a.nmconnection",
                Place::Other(no_use),
            ),
            ("/etc/pki/ca-trust/source/anchors/ca.crt", Place::Authority),
            ("/etc/chrony.conf", Place::Chrony),
            ("/etc/chrony.d/a.conf", Place::Chrony),
            ("/etc/systemd/timesyncd.conf.d/a.conf", Place::Timesyncd),
            ("/etc/hostname", Place::HostName),
            ("/etc/authfile.json", Place::Other(containers)),
            ("/etc/passwd", Place::Other(no_use)),
            ("etc/hostname", Place::Other(plain)),
            ("/etc//hostname", Place::Other(plain)),
            ("/etc/./hostname", Place::Other(plain)),
            ("/etc/ironic-python-agent.d/a\n.conf", Place::Other(plain)),
            ("/", Place::Other(plain)),
            ("", Place::Other(plain)),
        ] {
            assert_eq!(Place::of(path), expected, "{path:?}");
        }
    }
}
