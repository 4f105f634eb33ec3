//! An index that is prepared for fast lookups.

use std::collections::{HashMap, HashSet};

use crate::alias_table::AliasTable;
use crate::content::{IndexContent, Module, ModuleId};
use crate::module_name;
use crate::text_format::ParseError;

/// The result of resolving a name or an alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// The modules, at least one.
    Modules(Vec<ModuleId>),
    /// The driver is part of the kernel image, so there is nothing to load.
    BuiltIn,
    /// No module has this name or alias.
    Missing,
}

/// Finds the modules that a modalias requests, and the order in which to load them.
#[derive(Debug, Default)]
pub struct Index {
    content: IndexContent,
    by_name: HashMap<String, ModuleId>,
    aliases: AliasTable,
    built_in: HashSet<String>,
}

impl Index {
    /// Parses an index text. The error names the line of the first fault.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        IndexContent::parse(text).map(Self::new)
    }

    /// Prepares content for fast lookups.
    #[must_use]
    pub fn new(content: IndexContent) -> Self {
        let mut index = Self::default();
        for (id, module) in content.with_ids() {
            index
                .by_name
                .insert(module_name::normalise(&module.name).into_owned(), id);
            for alias in &module.aliases {
                index.aliases.insert(alias, id);
            }
        }
        for built_in in &content.built_in {
            index
                .built_in
                .insert(module_name::normalise(&built_in.name).into_owned());
            index.built_in.extend(
                built_in
                    .aliases
                    .iter()
                    .map(|a| module_name::normalise_alias(a).into_owned()),
            );
        }
        index.content = content;
        index
    }

    /// `uname -r` of the kernel that the modules belong to.
    #[must_use]
    pub fn kernel_release(&self) -> &str {
        &self.content.kernel_release
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.content.modules.len()
    }

    /// True if the ramdisk has no module, for example because all drivers are built in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.content.modules.is_empty()
    }

    /// The modules with their ids, in the order of the index.
    pub fn modules(&self) -> impl Iterator<Item = (ModuleId, &Module)> {
        self.content.with_ids()
    }

    /// # Panics
    /// If `id` comes from another index with more modules.
    #[must_use]
    pub fn module(&self, id: ModuleId) -> &Module {
        self.content.module(id)
    }

    /// The module of this name, written with `-` or with `_`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ModuleId> {
        self.by_name
            .get(module_name::normalise(name).as_ref())
            .copied()
    }

    /// The modules that a device with this modalias requests, in the order of the index.
    /// Empty if the driver is built into the kernel or is not in the ramdisk.
    #[must_use]
    pub fn modules_for(&self, modalias: &str) -> Vec<ModuleId> {
        self.aliases.find(modalias)
    }

    /// Resolves a name as `modprobe NAME` does: first as the name of a module, then as an
    /// alias, then as the name or an alias of a built-in module.
    #[must_use]
    pub fn resolve(&self, name_or_alias: &str) -> Resolution {
        if let Some(id) = self.find(name_or_alias) {
            return Resolution::Modules(vec![id]);
        }
        let by_alias = self.aliases.find(name_or_alias);
        if !by_alias.is_empty() {
            return Resolution::Modules(by_alias);
        }
        if self
            .built_in
            .contains(module_name::normalise(name_or_alias).as_ref())
        {
            return Resolution::BuiltIn;
        }
        Resolution::Missing
    }

    /// The modules that must be loaded before `id`, without the built-in ones.
    pub fn needs(&self, id: ModuleId) -> impl Iterator<Item = ModuleId> {
        self.module(id)
            .needs
            .iter()
            .filter_map(|name| self.find(name))
    }
}

#[cfg(test)]
mod tests;
