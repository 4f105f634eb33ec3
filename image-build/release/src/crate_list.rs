//! The crates that the programs of a release are made of. The builder's build
//! script records them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Crate {
    pub name: String,
    pub version: String,
    /// An SPDX expression, as its author wrote it.
    pub license: Option<String>,
    /// The digest of the published file; `None` for crates of this workspace.
    pub sha256: Option<String>,
    /// Whether it is a procedural macro, which runs in the compiler and is in no program.
    pub is_proc_macro: bool,
    /// The crates that it uses, as `NAME@VERSION`.
    pub dependencies: Vec<String>,
}

impl Crate {
    /// What identifies the crate in the list: `NAME@VERSION`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// Crates by `NAME@VERSION`.
#[derive(Debug, Clone, Default)]
pub struct CrateList(BTreeMap<String, Crate>);

#[derive(Debug, thiserror::Error)]
pub enum CrateListError {
    #[error("cannot read the list of crates")]
    Json(#[from] serde_json::Error),
    #[error("list of crates: expected `{wanted}`, found none")]
    Missing { wanted: String },
}

impl CrateList {
    /// Reads the list that the build script wrote.
    pub fn parse(json: &str) -> Result<Self, CrateListError> {
        let crates: Vec<Crate> = serde_json::from_str(json)?;
        let crates = crates.into_iter().map(|one| (one.id(), one));
        Ok(Self(crates.collect()))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A crate of this workspace and all crates that it uses, sorted. Fails if one
    /// of them is not in the list.
    pub fn program(&self, name: &str) -> Result<Vec<&Crate>, CrateListError> {
        let missing = |wanted: &str| CrateListError::Missing {
            wanted: wanted.to_owned(),
        };
        let own = self.0.values();
        let mut own = own.filter(|one| one.name == name && one.sha256.is_none());
        let root = own.next().ok_or_else(|| missing(name))?;
        let mut found = BTreeSet::from([root.id()]);
        let mut waiting = vec![root];
        while let Some(next) = waiting.pop() {
            for id in &next.dependencies {
                if found.insert(id.clone()) {
                    waiting.push(self.0.get(id).ok_or_else(|| missing(id))?);
                }
            }
        }
        Ok(found.iter().filter_map(|id| self.0.get(id)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"[
        {"name": "own", "version": "1", "license": "MIT", "sha256": null, "is_proc_macro": false, "dependencies": ["a@1", "b@2"]},
        {"name": "a", "version": "1", "license": null, "sha256": "00", "is_proc_macro": false, "dependencies": ["b@2"]},
        {"name": "b", "version": "2", "license": null, "sha256": "01", "is_proc_macro": true, "dependencies": ["a@1"]},
        {"name": "c", "version": "3", "license": null, "sha256": "02", "is_proc_macro": false, "dependencies": ["d@1"]},
        {"name": "e", "version": "3", "license": null, "sha256": null, "is_proc_macro": false, "dependencies": ["d@1"]}
    ]"#;

    #[test]
    fn a_program_has_its_crates_and_no_others() {
        let list = CrateList::parse(LIST).unwrap();
        let ids = list.program("own").unwrap();
        let ids: Vec<String> = ids.into_iter().map(Crate::id).collect();
        assert_eq!(ids, ["a@1", "b@2", "own@1"]);
        for (name, missing) in [("c", "c"), ("none", "none"), ("e", "d@1")] {
            assert_eq!(
                list.program(name).unwrap_err().to_string(),
                format!("list of crates: expected `{missing}`, found none")
            );
        }
        assert!(CrateList::parse("{").is_err());
        assert!(CrateList::parse("[]").unwrap().is_empty());
    }
}
