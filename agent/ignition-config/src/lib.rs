//! Finds the parts of an Ignition config (spec 3) that an agent in a ramdisk can apply.
//!
//! CoreOS' tools write the settings of a host to `/config.ign`, a file of the ramdisk:
//! `coreos-installer iso ignition embed`, `iso customize`, `pxe ignition wrap`, and
//! OpenShift's image-customization-controller. The ramdisk has no Ignition, systemd,
//! NetworkManager or podman. So this crate finds the files and the unit that concern the
//! agent itself: its configuration, the network, certificate authorities, time servers
//! and the host name. It lists everything else as not applied.
//!
//! This crate does no I/O.

mod agent_unit;
mod answer;
mod member;
mod merge;
mod place;
mod resource;
mod spec;
mod time_servers;

use landfall_boot_params::dracut_net::is_host_name;
use serde::{Deserialize, Serialize};

pub use agent_unit::AgentUnit;
use member::WrongType;
use merge::Merged;
use place::Place;
use resource::Decoder;

/// Where the kernel puts the config when it unpacks the ramdisk.
pub const PATH: &str = "config.ign";
/// The maximum length of a config in bytes. The area on an ISO has 256 KiB, compressed.
pub const LARGEST: usize = 8 << 20;
/// The maximum number of JSON values in a config, including the configs inside it. A file
/// entry has about ten values. 8 MiB of short values would take 200 MiB of the host's
/// memory.
const MOST_VALUES: usize = 100_000;
/// The maximum number of lines in each list of a [`ConfigIgn`].
const MOST_LINES: usize = 50;
/// The maximum number of lines in each list while the config is read.
const MOST_KEPT: usize = 4096;
/// The maximum length of a line in these lists, in characters.
const LONGEST_LINE: usize = 200;

/// A file of the config.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenFile {
    /// The absolute path of the file. For an entry of `certificateAuthorities`, the
    /// position of the entry in the config.
    pub path: String,
    #[serde(with = "answer::base64_text")]
    pub content: Vec<u8>,
}

/// Leaves out the content, which may be a secret.
impl std::fmt::Debug for GivenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.path, self.content.len())
    }
}

/// The parts of a config that the agent applies, and the list of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigIgn {
    /// Configuration files of the agent, by path.
    pub agent_files: Vec<GivenFile>,
    /// Files next to the agent's configuration that the configuration may name:
    /// certificates and keys.
    pub companions: Vec<GivenFile>,
    /// NetworkManager's profiles. [`GivenFile::path`] is the name of the file only.
    pub keyfiles: Vec<GivenFile>,
    /// PEM files of certificate authorities that the agent trusts in addition to the
    /// system's.
    pub authorities: Vec<GivenFile>,
    /// The NTP server that the agent asks: the first one in the order of the file paths,
    /// and no other. `ntp_path` is the path of the file that names this server.
    pub ntp_servers: Vec<String>,
    pub ntp_path: String,
    /// The content of /etc/hostname.
    pub host_name: Option<String>,
    /// The unit that starts the agent in OpenShift's live system.
    pub agent_unit: Option<AgentUnit>,
    /// The parts that are applied, one line each.
    pub applied: Vec<String>,
    /// The parts that are not applied and why, one line each.
    pub not_applied: Vec<String>,
    /// The parts that the ramdisk does not need, one line each.
    pub not_needed: Vec<String>,
}

/// Why a config cannot be used at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConfig {
    /// Holds its length in bytes.
    #[error("expected at most {LARGEST} bytes, found {0}")]
    TooLong(usize),
    #[error("expected at most {MOST_VALUES} values, found more")]
    TooManyValues,
    /// Holds the line and the column of the fault.
    #[error("expected an Ignition config, found invalid JSON at line {0}, column {1}")]
    Json(usize, usize),
    /// Holds the line and the column of the end.
    #[error("expected an Ignition config, found JSON that is cut off at line {0}, column {1}")]
    CutOff(usize, usize),
    /// Contains the position in the config, and what was expected and found there.
    #[error("{0}: {1}")]
    Member(String, String),
    /// Holds the version.
    #[error("expected ignition.version 3.x, found {0:?}")]
    Version(String),
    #[error("expected ignition.version 3.x, found none")]
    NoVersion,
}

/// Checks the `ignition.version` of a config; `None` if the config has none.
///
/// # Errors
/// If the config is not of spec 3, or has no version.
pub fn check_version(version: Option<&str>) -> Result<(), InvalidConfig> {
    match version {
        Some(version) if version.starts_with("3.") => Ok(()),
        Some(version) => {
            let start = version.chars().take(20).collect();
            Err(InvalidConfig::Version(start))
        }
        None => Err(InvalidConfig::NoVersion),
    }
}

impl From<WrongType> for InvalidConfig {
    fn from(error: WrongType) -> Self {
        let words = error.to_string();
        match error.path.is_empty() {
            true => Self::Member("the config".to_owned(), words),
            false => Self::Member(error.path, words),
        }
    }
}

impl ConfigIgn {
    /// Reads a config and the configs inside it (`ignition.config.merge`).
    ///
    /// # Errors
    /// If the bytes are not a config of spec 3. A part that cannot be used is no error:
    /// it becomes a line of [`ConfigIgn::not_applied`].
    pub fn read(bytes: &[u8]) -> Result<ConfigIgn, InvalidConfig> {
        if bytes.len() > LARGEST {
            return Err(InvalidConfig::TooLong(bytes.len()));
        }
        let mut found = ConfigIgn::default();
        let mut decoder = Decoder::default();
        let merged = Merged::read(bytes, &mut decoder, &mut found.not_applied)?;
        for (path, file) in &merged.files {
            found.take_file(path, file, &mut decoder);
        }
        for (path, resource) in merged.authorities {
            match decoder.decode(&resource) {
                Ok(content) => {
                    found.apply(&path, "trusted by the agent");
                    found.authorities.push(GivenFile { path, content });
                }
                Err(error) => found.leave(&path, error),
            }
        }
        for (name, unit) in &merged.units {
            found.take_unit(name, unit);
        }
        if let Some(first) = found.ntp_servers.first() {
            let first = first.clone();
            let others: Vec<String> = found.ntp_servers.drain(1..).collect();
            for other in others {
                let words = format!("the agent asks one NTP server, {first}");
                found.leave(&format!("NTP server {other}"), words);
            }
        }
        for list in [
            &mut found.applied,
            &mut found.not_applied,
            &mut found.not_needed,
        ] {
            bound(list);
        }
        Ok(found)
    }

    /// Removes the companions for which `is_kept` is false, and lists them as not applied
    /// for the reason `why`.
    pub fn retain_companions(&mut self, is_kept: impl Fn(&GivenFile) -> bool, why: &str) {
        let (kept, left) = self.companions.drain(..).partition(is_kept);
        self.companions = kept;
        let left: Vec<GivenFile> = left;
        for GivenFile { path, .. } in left {
            let line = format!("{path}: ");
            self.applied.retain(|known| !known.starts_with(&line));
            self.leave(&path, why);
        }
    }

    fn take_file(&mut self, path: &str, file: &merge::MergedFile, decoder: &mut Decoder) {
        let place = Place::of(path);
        match &place {
            Place::NotNeeded(why) => return add(&mut self.not_needed, path, *why),
            Place::Other(why) => return self.leave(path, *why),
            _ => {}
        }
        let content = match file.content(decoder) {
            Ok(content) => content,
            Err(error) => return self.leave(path, error),
        };
        let given = |path: &str| GivenFile {
            path: path.to_owned(),
            content: content.clone(),
        };
        match place {
            Place::AgentFile => {
                self.agent_files.push(given(path));
                self.apply(path, "settings of the agent");
            }
            Place::Companion => {
                self.companions.push(given(path));
                self.apply(path, "file of the agent");
            }
            Place::Keyfile(name) => {
                self.keyfiles.push(given(name));
                self.apply(path, "network");
            }
            Place::Authority => {
                self.authorities.push(given(path));
                self.apply(path, "trusted by the agent");
            }
            Place::Chrony => self.take_time_servers(path, time_servers::of_chrony(&content)),
            Place::Timesyncd => self.take_time_servers(path, time_servers::of_timesyncd(&content)),
            Place::HostName => self.take_host_name(path, &content),
            Place::ClientId => self.take_client_id(path, &content),
            Place::NotNeeded(_) | Place::Other(_) => {}
        }
    }

    fn take_time_servers(&mut self, path: &str, servers: Vec<String>) {
        if servers.is_empty() {
            return self.leave(path, "it names no time server that the agent could ask");
        }
        if self.ntp_servers.is_empty() {
            path.clone_into(&mut self.ntp_path);
        }
        self.apply(path, "time servers; the agent ignores its other lines");
        self.ntp_servers.extend(servers);
    }

    fn take_host_name(&mut self, path: &str, content: &[u8]) {
        let text = String::from_utf8_lossy(content);
        let mut lines = text.lines().map(str::trim);
        let name = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
        match name.filter(|name| is_host_name(name)) {
            Some(name) => {
                self.host_name = Some(name.to_owned());
                self.apply(path, "host name, unless another source gives one");
            }
            None => self.leave(path, "expected a host name, found none"),
        }
    }

    /// Checks whether the file sets only the DHCP identifiers of
    /// image-customization-controller: the ramdisk always uses these, so it does not
    /// need such a file.
    fn take_client_id(&mut self, path: &str, content: &[u8]) {
        let text = String::from_utf8_lossy(content);
        let lines = text.lines().map(str::trim);
        let is_same = |line: &str| {
            let known = ["[connection]", "ipv6.dhcp-duid=ll", "ipv6.dhcp-iaid=mac"];
            line.is_empty() || known.contains(&line)
        };
        match lines.clone().all(is_same) {
            true => add(
                &mut self.not_needed,
                path,
                "the ramdisk uses these identifiers anyway",
            ),
            false => self.leave(path, "the ramdisk has no NetworkManager"),
        }
    }

    fn take_unit(&mut self, name: &str, unit: &spec::Unit) {
        if name != agent_unit::NAME {
            return self.leave(name, "the ramdisk has no systemd");
        }
        if unit.mask == Some(true) {
            return self.leave(name, "it is masked");
        }
        let (unit, ignored) = AgentUnit::read(unit);
        self.apply(
            name,
            "environment of the agent; the ramdisk starts no container",
        );
        for (name, why) in ignored {
            self.leave(&name, why);
        }
        self.agent_unit = Some(unit);
    }

    fn apply(&mut self, what: &str, how: &str) {
        add(&mut self.applied, what, how);
    }

    fn leave(&mut self, what: &str, why: impl std::fmt::Display) {
        add(&mut self.not_applied, what, why);
    }
}

/// Adds a line to the list, shortened so that it fits on a console.
fn add(list: &mut Vec<String>, what: &str, words: impl std::fmt::Display) {
    if list.len() >= MOST_KEPT {
        return;
    }
    let line = format!("{what}: {words}");
    let plain = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    list.push(plain.take(LONGEST_LINE).collect());
}

fn bound(list: &mut Vec<String>) {
    if list.len() > MOST_LINES {
        let more = list.len() - MOST_LINES;
        list.truncate(MOST_LINES);
        list.push(format!("{more} more"));
    }
}

#[cfg(test)]
mod tests;
