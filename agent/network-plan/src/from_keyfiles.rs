//! Reads NetworkManager keyfiles into a [`NetworkPlan`]: the inverse of the writer in
//! `keyfile`.
//!
//! The files come from `nmstatectl gc`, nmcli, NetworkManager's generator for the
//! initramfs, or an operator. This module reads what nm-settings-keyfile(5)
//! describes: escapes, lists, numbered keys, references by name or UUID.
//!
//! A value that the ramdisk applies becomes a part of the plan. Every other key
//! stays among the settings of its profile, as written, for the installed system.
//! A key that is unknown here, or that the ramdisk applies differently, becomes a
//! warning. A value that cannot be used is a fault with its file, section and key.

mod connection;
mod ip;
mod ip_fields;
mod keys;
mod kind;
mod known_keys;
mod link;
mod open_vswitch;
mod references;
mod remaining;
mod route;
mod route_rule;
mod section_text;

use std::collections::BTreeSet;

use crate::findings::Findings;
use crate::keyfile::Keyfile;
use crate::plan::{Interface, NetworkPlan};
use connection::Draft;
use keys::Keys;

/// The maximum length of a file in bytes. The handover does not pass on longer files.
pub const LARGEST: usize = 256 << 10;
/// The maximum total length of the files in bytes. A host that uses every port of four
/// switches needs a tenth of it.
pub const LARGEST_TOTAL: usize = 8 << 20;
/// At most this many files are read.
pub const MOST_FILES: usize = 1024;

/// Why keyfiles cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyfilesError {
    /// Holds the number of the files.
    #[error("expected at most {MOST_FILES} keyfiles, found {0}")]
    TooMany(usize),
    /// Holds the total length of the files, in bytes.
    #[error("expected keyfiles of at most {LARGEST_TOTAL} bytes together, found {0}")]
    TooLong(usize),
    /// Every profile is for a kind of interface that the ramdisk does not have. Holds
    /// the warnings that name these profiles.
    #[error("expected a keyfile for an interface that the ramdisk has, found none")]
    NoInterface(Vec<String>),
    /// Holds all faults, one line each, with file, section and key.
    #[error("{}", .0.join("\n"))]
    Faults(Vec<String>),
}

impl KeyfilesError {
    /// Every fault, one line each.
    pub fn lines(&self) -> Vec<String> {
        match self {
            KeyfilesError::Faults(faults) => faults.clone(),
            KeyfilesError::NoInterface(warnings) => {
                let whole = std::iter::once(self.to_string());
                whole.chain(warnings.iter().cloned()).collect()
            }
            whole => vec![whole.to_string()],
        }
    }
}

impl NetworkPlan {
    /// The plan that only these files describe. Their order does not matter. A file with
    /// a fault is left out, with a warning, if the others can be used without it;
    /// NetworkManager leaves it out, too.
    ///
    /// # Errors
    /// If there are too many files, or if they are too long together. If a file has a
    /// fault and cannot be left out, because another file refers to its profile or no
    /// other file describes an interface. If the ramdisk has none of the interfaces.
    pub fn from_keyfiles(files: &[Keyfile]) -> Result<NetworkPlan, KeyfilesError> {
        if files.len() > MOST_FILES {
            return Err(KeyfilesError::TooMany(files.len()));
        }
        let total = files.iter().map(|file| file.text.len()).sum();
        if total > LARGEST_TOTAL {
            return Err(KeyfilesError::TooLong(total));
        }
        let findings = Findings::default();
        let all: Vec<&Keyfile> = files.iter().collect();
        let mut plan = read(&all, &findings);
        let faulty = findings.faulty_files();
        let warnings = match findings.into_result() {
            Ok(warnings) => warnings,
            Err(faults) => {
                let rest = without_faulty(&all, &faulty, &faults);
                let (rest, warnings) = rest.ok_or(KeyfilesError::Faults(faults))?;
                plan = rest;
                warnings
            }
        };
        if plan.interfaces.is_empty() && plan.installed.is_empty() && !files.is_empty() {
            return Err(KeyfilesError::NoInterface(warnings));
        }
        plan.warnings = warnings;
        plan.sort();
        plan.warn_of_far_gateways();
        Ok(plan)
    }
}

/// The plan of the files that have no fault, and its warnings. `None` if a file with a
/// fault is needed: another file refers to it, or no other file describes an interface.
fn without_faulty(
    files: &[&Keyfile],
    faulty: &BTreeSet<String>,
    faults: &[String],
) -> Option<(NetworkPlan, Vec<String>)> {
    let is_faulty = |file: &&Keyfile| faulty.contains(&file.name);
    let (faulty, rest): (Vec<&Keyfile>, Vec<&Keyfile>) = files.iter().copied().partition(is_faulty);
    let findings = Findings::default();
    let plan = read(&rest, &findings);
    let found = findings.into_result().ok()?;
    let left_out = faulty.into_iter().map(|file| {
        let words = "the ramdisk does not use this profile, because it has a fault";
        format!("{}: {words}", file.name)
    });
    let warnings = faults.iter().cloned().chain(left_out).chain(found);
    let has_interface = !(plan.interfaces.is_empty() && plan.installed.is_empty());
    has_interface.then(|| (plan, warnings.collect()))
}

fn read(files: &[&Keyfile], findings: &Findings) -> NetworkPlan {
    let mut sorted = files.to_vec();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let keys = sorted.iter().map(|file| Keys::read(file, findings));
    let mut drafts: Vec<Draft> = keys.filter_map(connection::read).collect();
    references::resolve(&mut drafts, findings);
    let rules = drafts.iter().flat_map(route_rule::read_all).collect();
    let mut plan = NetworkPlan {
        interfaces: drafts.iter().map(|draft| draft.interface.clone()).collect(),
        rules,
        ..NetworkPlan::default()
    };
    for draft in &mut drafts {
        remaining::keep(draft, &plan);
    }
    let interfaces: Vec<Interface> = drafts.into_iter().map(|draft| draft.interface).collect();
    (plan.interfaces, plan.installed) = open_vswitch::split(interfaces, findings);
    plan
}

#[cfg(test)]
mod tests;
