//! Reads single `coreos.inst.*` arguments, and collects faults and warnings about them.

use super::{CURRENT_ONLY, IGNITION_URL, INSECURE, IgnitionPlace, KNOWN, LEGACY, MAX_UNKNOWN};
use super::{OWN_PREFIX, PREFIX, SKIP};
use crate::argument_value::{ArgumentValue as _, HttpUrl};
use crate::cmdline::{CommandLine, Token};
use crate::digest::{Digest, DigestError};
use crate::nearest_name::nearest;
use crate::shown::without_secrets;

/// Reads one command line, and collects its faults and warnings.
pub(super) struct Reader<'a> {
    line: &'a CommandLine,
    pub faults: Vec<String>,
    pub warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    pub fn new(line: &'a CommandLine) -> Self {
        Self {
            line,
            faults: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The value of `key`. An empty value counts as none, as in coreos-installer. An
    /// argument without `=` is a fault.
    pub fn text(&mut self, key: &str) -> Option<String> {
        let token = self.line.last(key)?;
        if token.value.is_none() {
            self.faults
                .push(format!("{key}: expected {key}=VALUE, found no value"));
        }
        token.value.clone().filter(|text| !text.is_empty())
    }

    pub fn url(&mut self, key: &str) -> Option<String> {
        let text = self.text(key)?;
        match HttpUrl::parse(&text) {
            Some(url) => Some(url.0),
            None => {
                let shown = without_secrets(&text);
                let expected = HttpUrl::EXPECTED;
                self.faults
                    .push(format!("{key}: expected {expected}, found {shown:?}"));
                None
            }
        }
    }

    pub fn digest(
        &mut self,
        key: &str,
        parse: fn(&str) -> Result<Digest, DigestError>,
    ) -> Option<Digest> {
        let parsed = parse(&self.text(key)?);
        parsed
            .map_err(|fault| self.faults.push(format!("{key}: {fault}")))
            .ok()
    }

    /// The place of the Ignition config; `None` for `skip`, without a value, and on a
    /// fault. The old installer also accepted a path, and required `skip` to install a
    /// system without a config.
    pub fn ignition(&mut self) -> Option<IgnitionPlace> {
        let token = self.line.last(IGNITION_URL)?;
        match token.value_or_empty() {
            SKIP => None,
            path if path.starts_with('/') => Some(IgnitionPlace::File(path.to_owned())),
            _ => self.url(IGNITION_URL).map(IgnitionPlace::Url),
        }
    }

    /// A switch is on if it is given, unless its value is empty, `0`, `no` or `off`, as
    /// in `karg_bool` of coreos-installer's service. That service also treats `false` as
    /// on. No user expects that, so here `false` is off.
    pub fn switch(&mut self, key: &str) -> bool {
        let Some(text) = self.line.last(key).map(|token| token.value.as_deref()) else {
            return false;
        };
        let text = text.unwrap_or("1").to_ascii_lowercase();
        if text == "false" {
            self.warnings.push(format!(
                "{key}=false: taken as off, but coreos-installer takes it as on -- write {key}=0"
            ));
        }
        !["", "0", "no", "off", "false"].contains(&&*text)
    }

    pub fn legacy(&mut self) -> bool {
        let mut current_only = CURRENT_ONLY.iter();
        let newer = current_only.find(|key| self.line.last(key).is_some());
        match (self.switch(LEGACY), newer) {
            (true, Some(newer)) => {
                self.warnings.push(format!(
                    "{LEGACY}=yes: ignored, since the old installer that needs it does not know {newer}; the image is verified unless {INSECURE} is set"
                ));
                false
            }
            (legacy, _) => legacy,
        }
    }

    pub fn warn_of_repeats(&mut self) {
        for key in KNOWN {
            let given = self.line.tokens().iter().filter(|token| token.key == *key);
            let mut values: Vec<_> = given.map(|token| &token.value).collect();
            let count = values.len();
            values.dedup();
            if values.len() > 1 {
                self.warnings.push(format!(
                    "{key}: given {count} times; the last one takes effect"
                ));
            }
        }
    }

    /// A line for each unknown name. Leaves the value out, since it may be a secret.
    pub fn unknown(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        for Token { key, .. } in self.line.tokens() {
            let ours = key.starts_with(PREFIX) || key.starts_with(OWN_PREFIX);
            if !ours || KNOWN.contains(&&**key) || seen.contains(&&**key) {
                continue;
            }
            if seen.len() == MAX_UNKNOWN {
                break;
            }
            seen.push(key);
            lines.push(match nearest(key, KNOWN.iter().copied()) {
                Some(name) => format!("{key}: unknown name; ignored -- did you mean {name}?"),
                None => format!("{key}: unknown name; ignored"),
            });
        }
        lines
    }
}
