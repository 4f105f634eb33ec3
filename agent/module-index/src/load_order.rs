//! Computes the order in which modules and everything they need are loaded.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::ModuleId;
use crate::index::{Index, Resolution};

impl Index {
    /// Returns `wanted` and all modules that they need, in levels. The modules of one
    /// level do not need each other: they may be loaded at the same time, after all
    /// previous levels.
    ///
    /// Hard dependencies and `pre:` softdeps precede the module that names them, `post:`
    /// softdeps follow it. A softdep that matches no module is skipped. If softdeps form
    /// a cycle (two modules may name each other), the softdeps of one module that is in
    /// the cycle or waits for it are ignored. So every module appears exactly once, and
    /// after its hard dependencies.
    pub fn load_order(&self, wanted: impl IntoIterator<Item = ModuleId>) -> Vec<Vec<ModuleId>> {
        let mut waiting = self.closure(wanted);
        let mut levels = Vec::new();
        while !waiting.is_empty() {
            let mut level = ready(&waiting, |before| {
                before.hard.is_empty() && before.soft.is_empty()
            });
            if level.is_empty() {
                // Only cycles are left. Take one module, not all: after this module, the
                // next module may be ready in the normal order.
                level = ready(&waiting, |before| before.hard.is_empty());
                level.truncate(1);
            }
            if level.is_empty() {
                // The hard dependencies form a cycle. No real kernel has such modules.
                // Take any module: the kernel reports an error if it cannot load the
                // module.
                level.extend(waiting.keys().next());
            }
            for id in &level {
                waiting.remove(id);
            }
            for before in waiting.values_mut() {
                for id in &level {
                    before.hard.remove(id);
                    before.soft.remove(id);
                }
            }
            levels.push(level);
        }
        levels
    }

    /// `wanted` and all modules that they need, each with the modules that must precede
    /// it.
    fn closure(&self, wanted: impl IntoIterator<Item = ModuleId>) -> BTreeMap<ModuleId, Before> {
        let mut order: BTreeMap<ModuleId, Before> = BTreeMap::new();
        let mut to_visit: Vec<ModuleId> = wanted.into_iter().collect();
        let mut visited = BTreeSet::new();
        while let Some(id) = to_visit.pop() {
            if !visited.insert(id) {
                continue;
            }
            let needs: BTreeSet<ModuleId> = self.needs(id).filter(|&need| need != id).collect();
            let before = self.softdeps(id, &self.module(id).softdeps_before);
            let after = self.softdeps(id, &self.module(id).softdeps_after);
            to_visit.extend(needs.iter().chain(&before).chain(&after));
            for later in after {
                order.entry(later).or_default().soft.insert(id);
            }
            let entry = order.entry(id).or_default();
            entry.hard.extend(needs);
            entry.soft.extend(before);
        }
        order
    }

    fn softdeps(&self, user: ModuleId, names: &[String]) -> BTreeSet<ModuleId> {
        let mut modules = BTreeSet::new();
        for name in names {
            if let Resolution::Modules(ids) = self.resolve(name) {
                modules.extend(ids);
            }
        }
        modules.remove(&user);
        modules
    }
}

/// The modules that must be loaded before one module.
#[derive(Debug, Default)]
struct Before {
    hard: BTreeSet<ModuleId>,
    soft: BTreeSet<ModuleId>,
}

fn ready(
    waiting: &BTreeMap<ModuleId, Before>,
    is_ready: impl Fn(&Before) -> bool,
) -> Vec<ModuleId> {
    waiting
        .iter()
        .filter(|(_, before)| is_ready(before))
        .map(|(&id, _)| id)
        .collect()
}

#[cfg(test)]
mod tests;
