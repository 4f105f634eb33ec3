//! Reads the systemd unit `ironic-agent.service` as image-customization-controller writes
//! it. The environment of the unit and the options of podman contain settings of the
//! agent.

use std::collections::{BTreeMap, BTreeSet};

use landfall_boot_params::agent_args::NAMES;
use serde::{Deserialize, Serialize};

use crate::spec::Unit;

/// The name of the unit.
pub(crate) const NAME: &str = "ironic-agent.service";
/// The maximum number of environment variables that are read.
const MOST_VARIABLES: usize = 64;
/// Other systemd keys (systemd.exec(5)) and podman options that change the environment of
/// the agent in OpenShift's live system. This module does not apply them, but reports
/// them as ignored.
const OTHER_KEYS: &[&str] = &["EnvironmentFile", "PassEnvironment", "UnsetEnvironment"];
const OTHER_OPTIONS: &[&str] = &[
    "--env-file",
    "--env-host",
    "--env-merge",
    "--http-proxy",
    "--unsetenv",
    "--unsetenv-all",
];

/// The settings in the unit.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentUnit {
    /// Environment variables by name. Each of them is also the name of a kernel
    /// argument.
    pub environment: BTreeMap<String, String>,
}

/// Leaves out the values: a proxy's URL may contain a password.
impl std::fmt::Debug for AgentUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.environment.keys()).finish()
    }
}

impl AgentUnit {
    /// Reads the unit and its drop-ins. Also returns what is ignored, and why.
    pub(crate) fn read(unit: &Unit) -> (AgentUnit, Vec<(String, String)>) {
        let mut service = Service::default();
        let mut texts = vec![unit.contents.as_deref().unwrap_or_default()];
        let mut dropins: Vec<_> = unit.dropins.iter().collect();
        dropins.sort_by(|a, b| a.name.cmp(&b.name));
        texts.extend(
            dropins
                .iter()
                .filter_map(|dropin| dropin.contents.as_deref()),
        );
        let mut ignored = Vec::new();
        for text in texts {
            service.read(text, &mut ignored);
        }
        let options = service.start.iter().map(|word| word.split('=').next());
        let options: BTreeSet<_> = options.flatten().collect();
        let keys = service.other_keys.iter().map(|key| format!("{key}="));
        let options = OTHER_OPTIONS.iter().filter(|name| options.contains(*name));
        for other in keys.chain(options.map(|name| (*name).to_owned())) {
            let words = "the agent reads only Environment= and --env of podman";
            ignored.push((format!("{NAME}: {other}"), words.to_owned()));
        }
        let of_container = service.variables_of_podman(&mut ignored);
        let variables = service.environment.into_iter().chain(of_container);
        let (unit, unknown) = Self::from_variables(variables);
        ignored.extend(unknown.into_iter().map(|name| {
            let what = format!("{NAME}: {name}");
            (what, "the agent has no such setting".to_owned())
        }));
        (unit, ignored)
    }

    /// Returns the variables that are settings of the agent, and the names of all other
    /// variables. A variable with an empty value is in neither of them.
    pub fn from_variables(
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> (AgentUnit, Vec<String>) {
        let (mut environment, mut ignored) = (BTreeMap::new(), Vec::new());
        for (name, value) in variables {
            let mut arguments = NAMES.iter().filter_map(|names| names.argument);
            let is_setting = is_variable(&name) && arguments.any(|argument| argument == name);
            if value.is_empty() {
                continue;
            }
            if !is_setting || environment.len() >= MOST_VARIABLES {
                ignored.push(name);
                continue;
            }
            environment.insert(name, value);
        }
        (AgentUnit { environment }, ignored)
    }

    /// The settings, each by the name of its option.
    pub fn options(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.environment.iter().filter_map(|(name, value)| {
            let mut names = NAMES.iter();
            let names = names.find(|names| names.argument == Some(name.as_str()))?;
            Some((names.option?, value.as_str()))
        })
    }
}

/// Whether the name is in upper case. Only kernel arguments in upper case are also names
/// of environment variables.
fn is_variable(name: &str) -> bool {
    let is_part = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
    name.bytes().all(is_part)
}

/// The part of the unit that this module reads.
#[derive(Default)]
struct Service {
    environment: Vec<(String, String)>,
    /// The keys of [`OTHER_KEYS`] that have a value.
    other_keys: BTreeSet<&'static str>,
    /// The words of the last `ExecStart=`.
    start: Vec<String>,
}

impl Service {
    fn read(&mut self, text: &str, ignored: &mut Vec<(String, String)>) {
        let mut section = String::new();
        for line in joined_lines(text) {
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                name.clone_into(&mut section);
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            if section != "Service" {
                continue;
            }
            if let Some(key) = OTHER_KEYS.iter().find(|known| **known == key) {
                // As in systemd, an empty value removes the earlier values of the key.
                match value.is_empty() {
                    true => self.other_keys.remove(key),
                    false => self.other_keys.insert(key),
                };
            }
            if !["Environment", "ExecStart"].contains(&key) {
                continue;
            }
            let Some(words) = shlex::split(value) else {
                let what = format!("{NAME}: {key}=");
                ignored.push((what, "expected every quote to be closed".to_owned()));
                continue;
            };
            // `%%` stands for one percent sign. Specifiers stay as they are.
            let words = words.into_iter().map(|word| word.replace("%%", "%"));
            match (key, value.is_empty()) {
                ("Environment", true) => self.environment.clear(),
                ("Environment", false) => {
                    for word in words {
                        match variable(&word) {
                            Some(variable) => self.environment.push(variable),
                            None => ignored.push(not_a_variable("Environment=")),
                        }
                    }
                }
                _ => self.start = words.collect(),
            }
        }
    }

    /// The variables that podman gives to the container: `--env NAME=VALUE`, or `--env
    /// NAME` for a variable of the unit.
    fn variables_of_podman(&self, ignored: &mut Vec<(String, String)>) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut words = self.start.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let given = match word.strip_prefix("--env").or(word.strip_prefix("-e")) {
                Some("") => words.next(),
                Some(rest) if rest.starts_with('=') => Some(&rest[1..]),
                Some(rest) if !word.starts_with("--") => Some(rest),
                _ => None,
            };
            let Some(given) = given else {
                continue;
            };
            let of_unit = self.environment.iter().find(|(name, _)| name == given);
            match variable(given).or(of_unit.cloned()) {
                Some(variable) => found.push(variable),
                None if is_name(given) => {
                    let what = format!("{NAME}: --env {given}");
                    ignored.push((what, "the unit does not set it".to_owned()));
                }
                None => ignored.push(not_a_variable("--env")),
            }
        }
        found
    }
}

/// The lines without comments. A backslash at the end joins a line with the next one.
fn joined_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        match line.strip_suffix('\\') {
            Some(start) => {
                open.push_str(start);
                open.push(' ');
            }
            None => {
                open.push_str(line);
                lines.push(std::mem::take(&mut open));
            }
        }
    }
    lines.push(open);
    lines
}

/// `None` if the word is not NAME=VALUE.
fn variable(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    is_name(name).then(|| (name.to_owned(), value.to_owned()))
}

/// Whether the text is the name of a variable, so that a message may contain it. Any
/// other text may be a part of a value, and a value may be a secret.
fn is_name(text: &str) -> bool {
    let is_part = |c: u8| c.is_ascii_alphanumeric() || b"_-*".contains(&c);
    !text.is_empty() && text.bytes().all(is_part)
}

fn not_a_variable(place: &str) -> (String, String) {
    let what = format!("{NAME}: {place}");
    (what, "expected NAME=VALUE".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Dropin;

    fn read(contents: &str, dropin: &str) -> (Vec<String>, Vec<String>) {
        let unit = Unit {
            name: NAME.to_owned(),
            mask: None,
            contents: Some(contents.to_owned()),
            dropins: vec![Dropin {
                name: "10-a.conf".to_owned(),
                contents: Some(dropin.to_owned()),
            }],
        };
        let (unit, ignored) = AgentUnit::read(&unit);
        let environment = unit.environment.iter();
        let environment = environment.map(|(name, value)| format!("{name}={value}"));
        let ignored = ignored.iter().map(|(what, why)| format!("{what}: {why}"));
        (environment.collect(), ignored.collect())
    }

    #[test]
    fn variables_of_the_unit_and_of_podman() {
        let start = "[Unit]\nEnvironment=HTTP_PROXY=other\n[Service]\n";
        for (contents, dropin, expected, ignored) in [
            (
                "Environment=\"HTTP_PROXY=http://p:1\" NO_PROXY=a,b\n",
                "",
                vec!["HTTP_PROXY=http://p:1", "NO_PROXY=a,b"],
                vec![],
            ),
            ("Environment=\"HTTP_PROXY=\"\n", "", vec![], vec![]),
            (
                "Environment=HTTP_PROXY=http://u:p%%40@h\n",
                "",
                vec!["HTTP_PROXY=http://u:p%40@h"],
                vec![],
            ),
            (
                "ExecStart=/bin/podman run --env \"IPA_COREOS_IP_OPTIONS=ip=dhcp rd.x\" \\\n  -e IPA_COREOS_COPY_NETWORK=true --env=IPA_DEFAULT_HOSTNAME=n1 --name x image\n",
                "",
                vec![
                    "IPA_COREOS_COPY_NETWORK=true",
                    "IPA_COREOS_IP_OPTIONS=ip=dhcp rd.x",
                    "IPA_DEFAULT_HOSTNAME=n1",
                ],
                vec![],
            ),
            (
                "Environment=HTTP_PROXY=http://a\nExecStart=run --env HTTP_PROXY --env X=1\n",
                "[Service]\nEnvironment=\nEnvironment=HTTPS_PROXY=http://b\n",
                vec!["HTTPS_PROXY=http://b"],
                vec![
                    "ironic-agent.service: --env HTTP_PROXY: the unit does not set it",
                    "ironic-agent.service: X: the agent has no such setting",
                ],
            ),
            (
                "Environment=\"HTTP_PROXY=x\n",
                "",
                vec![],
                vec!["ironic-agent.service: Environment=: expected every quote to be closed"],
            ),
            (
                "# Environment=HTTP_PROXY=x\nEnvironment=ipa-debug=1\n",
                "",
                vec![],
                vec!["ironic-agent.service: ipa-debug: the agent has no such setting"],
            ),
            (
                "EnvironmentFile=-/etc/proxy.env\nEnvironmentFile=/etc/b.env\nPassEnvironment=A\nUnsetEnvironment=HTTP_PROXY\n",
                "",
                vec![],
                vec![
                    "ironic-agent.service: EnvironmentFile=: the agent reads only Environment= and --env of podman",
                    "ironic-agent.service: PassEnvironment=: the agent reads only Environment= and --env of podman",
                    "ironic-agent.service: UnsetEnvironment=: the agent reads only Environment= and --env of podman",
                ],
            ),
            // An empty value removes the earlier values of the key.
            (
                "EnvironmentFile=/etc/proxy.env\n",
                "[Service]\nEnvironmentFile=\n",
                vec![],
                vec![],
            ),
            (
                "ExecStart=/bin/podman run --env-file /etc/a --env-file=/etc/b --env-host=true --unsetenv A --env-merge B=x --http-proxy=false image\n",
                "",
                vec![],
                vec![
                    "ironic-agent.service: --env-file: the agent reads only Environment= and --env of podman",
                    "ironic-agent.service: --env-host: the agent reads only Environment= and --env of podman",
                    "ironic-agent.service: --env-merge: the agent reads only Environment= and --env of podman",
                    "ironic-agent.service: --http-proxy: the agent reads only Environment= and --env of podman",
                    "ironic-agent.service: --unsetenv: the agent reads only Environment= and --env of podman",
                ],
            ),
            (
                "ExecStart=/bin/podman run -eHTTP_PROXY=http://a --env NO_PROXY -e=HTTPS_* image\n",
                "",
                vec!["HTTP_PROXY=http://a"],
                vec![
                    "ironic-agent.service: --env NO_PROXY: the unit does not set it",
                    "ironic-agent.service: --env HTTPS_*: the unit does not set it",
                ],
            ),
            // A value in the place of a name may be a secret.
            (
                "Environment=HTTP_PROXY http://u:hunter2@p:1/?a=b\nExecStart=run --env http://u:hunter2@h\n",
                "",
                vec![],
                vec![
                    "ironic-agent.service: Environment=: expected NAME=VALUE",
                    "ironic-agent.service: Environment=: expected NAME=VALUE",
                    "ironic-agent.service: --env: expected NAME=VALUE",
                ],
            ),
        ] {
            let found = read(&format!("{start}{contents}"), dropin);
            assert_eq!(found.0, expected, "{contents}");
            assert_eq!(found.1, ignored, "{contents}");
        }
    }
}
