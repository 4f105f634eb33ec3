//! A table of alias patterns. It compares a modalias only with the few patterns that may
//! match.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::ModuleId;
use crate::{module_name, pattern};

/// Alias patterns, grouped by the text before their first wildcard.
///
/// The table is searched once for each *length* of such a prefix (about 40 lengths among
/// the 26 222 aliases of a whole kernel). So the modalias of a PCI device is compared
/// with the patterns of its own vendor and device number, not with thousands of others.
#[derive(Debug, Default)]
pub(crate) struct AliasTable {
    by_prefix: BTreeMap<Box<[u8]>, Vec<Entry>>,
    prefix_lengths: BTreeSet<usize>,
}

#[derive(Debug)]
struct Entry {
    /// The pattern after the prefix.
    rest: Box<[u8]>,
    module: ModuleId,
}

impl AliasTable {
    pub(crate) fn insert(&mut self, alias: &str, module: ModuleId) {
        let alias = module_name::normalise_alias(alias);
        let prefix = pattern::literal_prefix(&alias);
        let rest = alias.as_bytes()[prefix.len()..].into();
        self.prefix_lengths.insert(prefix.len());
        self.by_prefix
            .entry(prefix.as_bytes().into())
            .or_default()
            .push(Entry { rest, module });
    }

    /// The modules whose patterns match, each once, in the order of the index.
    pub(crate) fn find(&self, alias: &str) -> Vec<ModuleId> {
        let alias = module_name::normalise(alias);
        let alias = alias.as_bytes();
        let mut modules = BTreeSet::new();
        for &length in self.prefix_lengths.range(..=alias.len()) {
            let (prefix, rest) = alias.split_at(length);
            for entry in self.by_prefix.get(prefix).into_iter().flatten() {
                if pattern::matches(&entry.rest, rest) {
                    modules.insert(entry.module);
                }
            }
        }
        modules.into_iter().collect()
    }
}
