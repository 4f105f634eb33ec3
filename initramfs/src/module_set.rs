//! Lists of the modules that go into a ramdisk, by name and by directory.
//!
//! A list has one entry per line; `#` begins a comment:
//!
//! ```text
//! @vm                      everything of a built-in set (`vm`, `server`, `aarch64`)
//! xfs                      a module
//! drivers/net/ethernet/    every module below this directory of the kernel
//! -nfp                     not this module, unless another module needs it
//! -drivers/scsi/pcmcia/    no module below this directory, unless another needs it
//! ```

use std::collections::BTreeSet;
use std::fmt;

use landfall_boot_params::nearest_within;
use landfall_module_index::module_name;

use crate::kernel_modules::ModuleTree;

/// The names and the texts of the sets that are part of the builder.
const BUILT_IN: Sets = &[
    ("vm", include_str!("../module-sets/vm.txt")),
    ("server", include_str!("../module-sets/server.txt")),
    ("aarch64", include_str!("../module-sets/aarch64.txt")),
];

type Sets = &'static [(&'static str, &'static str)];

/// The size limit of a list in bytes: ten times the size of a list with all module names
/// of a kernel.
const MAX_SET_BYTES: usize = 1 << 20;

/// A list of modules to include and to exclude.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleSet {
    name: String,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    number: usize,
    excluded: bool,
    what: Selector,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Selector {
    Module(String),
    /// A directory below `kernel/`, with a slash at its end.
    Directory(String),
    Include(ModuleSet),
}

/// A set applied to the modules of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The modules that the set selects, without their dependencies.
    pub selected: BTreeSet<String>,
    /// The modules that the set excludes.
    pub left_out: BTreeSet<String>,
    /// The names that the kernel has neither as a module nor built in.
    pub unknown: Vec<Unknown>,
}

/// The entries of a built-in set that a kernel lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The name of the set.
    pub set: String,
    /// The number of entries of the set.
    pub lines: usize,
    /// The entries that match nothing in the kernel.
    pub missing: Vec<String>,
}

/// Why a set cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The text is too large to be a list of names.
    #[error("module set {set} is {found} bytes, expected at most {MAX_SET_BYTES}")]
    TooLarge {
        set: String,
        /// The size of the text in bytes.
        found: usize,
    },
    #[error(
        "module set {set} line {line}: expected a module name, `directory/`, `-name` or `@vm`, found `{found}`"
    )]
    BadLine {
        set: String,
        /// The line, counted from 1.
        line: usize,
        found: String,
    },
    /// The kernel lacks some names of the set. The error lists all of these names, not
    /// only the first one.
    #[error("module set {set}: the kernel has no {}", list(unknown))]
    Unknown {
        set: String,
        /// Entries that match nothing in the kernel.
        unknown: Vec<Unknown>,
    },
}

/// An entry of a set that matches nothing in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The line, counted from 1.
    pub line: usize,
    /// The name as written in the set.
    pub name: String,
    /// A similar name, as a suggestion.
    pub nearest: Option<String>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (line {}", self.name, self.line)?;
        match &self.nearest {
            Some(nearest) => write!(f, ", did you mean `{nearest}`?)"),
            None => f.write_str(")"),
        }
    }
}

fn list(unknown: &[Unknown]) -> String {
    unknown
        .iter()
        .map(Unknown::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

impl ModuleSet {
    /// A set that is part of the builder.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        Self::one_of(BUILT_IN, name, &[])
    }

    /// Finds a built-in set. `open` contains the names of the sets that include this one,
    /// directly or through other sets.
    fn one_of(sets: Sets, name: &str, open: &[&str]) -> Option<Self> {
        if open.contains(&name) {
            return None;
        }
        let (_, text) = sets.iter().find(|(other, _)| *other == name)?;
        // A test parses the texts, which are compiled in, so this never fails.
        Self::parse_within(sets, name, text, open).ok()
    }

    /// Parses a user's set. `name` identifies the set in messages. The error names the
    /// first invalid line.
    pub fn parse(name: &str, text: &str) -> Result<Self, SetError> {
        Self::parse_within(BUILT_IN, name, text, &[])
    }

    fn parse_within(sets: Sets, name: &str, text: &str, open: &[&str]) -> Result<Self, SetError> {
        if text.len() > MAX_SET_BYTES {
            return Err(SetError::TooLarge {
                set: name.to_owned(),
                found: text.len(),
            });
        }
        let open = [open, &[name]].concat();
        let include = |set: &str| Self::one_of(sets, set, &open);
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let words = line.split('#').next().unwrap_or_default().trim();
            if words.is_empty() {
                continue;
            }
            let (excluded, word) = words
                .strip_prefix('-')
                .map_or((false, words), |word| (true, word));
            let bad = || SetError::BadLine {
                set: name.to_owned(),
                line: number,
                found: words.to_owned(),
            };
            let what = selector(word, excluded, include).ok_or_else(bad)?;
            lines.push(Line {
                number,
                excluded,
                what,
            });
        }
        Ok(Self {
            name: name.to_owned(),
            lines,
        })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The modules of `tree` that the set selects, without their dependencies.
    ///
    /// # Errors
    /// [`SetError::Unknown`] with every entry of a user's set that matches nothing. In a
    /// built-in set such entries are no error, because the set is written for many
    /// kernels.
    pub fn select(&self, tree: &ModuleTree) -> Result<BTreeSet<String>, SetError> {
        let Resolved {
            selected, unknown, ..
        } = self.resolve(tree);
        if !unknown.is_empty() && !self.is_built_in() {
            return Err(SetError::Unknown {
                set: self.name.clone(),
                unknown,
            });
        }
        Ok(selected)
    }

    /// The entries of the built-in set `server` that the kernel lacks, if it lacks two
    /// fifths of them or more: such a kernel is for virtual machines. `None` for any
    /// other kernel, and if this set neither is nor includes `server`.
    ///
    /// Debian's complete kernels lack none of the entries, and its `cloud` kernel lacks
    /// half of them. Without this check the operator would notice that only when a server
    /// boots without a disk.
    #[must_use]
    pub fn missing_in(&self, tree: &ModuleTree) -> Option<Missing> {
        let included = self.lines.iter().find_map(|line| match &line.what {
            Selector::Include(set) => set.missing_in(tree),
            _ => None,
        });
        if included.is_some() || self.name != "server" || !self.is_built_in() {
            return included;
        }
        let unknown = self.resolve(tree).unknown;
        let wanted = |line: &&Line| !line.excluded && !matches!(line.what, Selector::Include(_));
        let wanted: Vec<usize> = (self.lines.iter().filter(wanted))
            .map(|line| line.number)
            .collect();
        let missing: Vec<String> = (unknown.into_iter())
            .filter(|unknown| wanted.contains(&unknown.line))
            .map(|unknown| unknown.name)
            .collect();
        // A kernel that lacks two fifths of the entries is not meant for servers.
        (missing.len() * 5 >= wanted.len() * 2).then(|| Missing {
            set: self.name.clone(),
            lines: wanted.len(),
            missing,
        })
    }

    fn is_built_in(&self) -> bool {
        Self::built_in(&self.name).as_ref() == Some(self)
    }

    /// Applies every line of the set to `tree`.
    #[must_use]
    pub fn resolve(&self, tree: &ModuleTree) -> Resolved {
        let mut selected = BTreeSet::new();
        let mut left_out = BTreeSet::new();
        let mut unknown = Vec::new();
        for line in &self.lines {
            let found = match &line.what {
                Selector::Include(set) => set.select(tree).unwrap_or_default(),
                Selector::Module(name) => tree
                    .path_of(name)
                    .map(|_| name.clone())
                    .into_iter()
                    .collect(),
                Selector::Directory(directory) => below(tree, directory),
            };
            let is_known = !found.is_empty()
                || match &line.what {
                    Selector::Include(_) => true,
                    Selector::Module(name) => tree.is_built_in(name),
                    Selector::Directory(_) => false,
                };
            if !is_known {
                unknown.push(line.unknown(tree));
            }
            if line.excluded {
                left_out.extend(found)
            } else {
                selected.extend(found)
            }
        }
        Resolved {
            selected: &selected - &left_out,
            left_out,
            unknown,
        }
    }
}

impl Line {
    fn unknown(&self, tree: &ModuleTree) -> Unknown {
        let (name, nearest) = match &self.what {
            Selector::Directory(directory) => (directory.clone(), None),
            Selector::Module(name) => {
                // If more than a third of the letters differ, a suggestion would only
                // confuse the user.
                let limit = name.len().div_ceil(3).min(4);
                (name.clone(), nearest_within(name, limit, tree.names()))
            }
            Selector::Include(set) => (set.name.clone(), None),
        };
        Unknown {
            line: self.number,
            name,
            nearest: nearest.map(str::to_owned),
        }
    }
}

fn selector(
    word: &str,
    excluded: bool,
    include: impl Fn(&str) -> Option<ModuleSet>,
) -> Option<Selector> {
    if let Some(set) = word.strip_prefix('@') {
        return (!excluded).then(|| include(set).map(Selector::Include))?;
    }
    let plain = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-+.,".contains(&b))
    };
    match word.strip_suffix('/') {
        Some(directory) => {
            let directory = directory.strip_prefix("kernel/").unwrap_or(directory);
            directory
                .split('/')
                .all(plain)
                .then(|| Selector::Directory(format!("{directory}/")))
        }
        None => {
            let name = module_name::of_file(word)
                .unwrap_or_else(|| module_name::normalise(word).into_owned());
            plain(&name).then_some(Selector::Module(name))
        }
    }
}

fn below(tree: &ModuleTree, directory: &str) -> BTreeSet<String> {
    // RHEL 8 and 9 have the drivers of kernel-modules-extra below `extra/`.
    let is_below = |path: &str| {
        let top = ["kernel/", "extra/"];
        let path = top
            .into_iter()
            .find_map(|top| path.strip_prefix(top))
            .unwrap_or(path);
        path.starts_with(directory)
    };
    tree.names()
        .filter(|name| tree.path_of(name).is_some_and(is_below))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;
