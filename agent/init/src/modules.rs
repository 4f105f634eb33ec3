//! The modules of the running kernel: which modules match an alias, the order in which
//! they are loaded, and the state of each module.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use landfall_module_index::{INDEX_NAME, Index, MAX_INDEX_BYTES, ModuleId, ParseError, Resolution};

use super::module_file::{self, InsertError};

type Insert = Box<dyn Fn(&Path) -> Result<(), InsertError> + Send + Sync>;

/// Why init cannot look up the modules of this ramdisk.
#[derive(Debug, thiserror::Error)]
pub(super) enum IndexError {
    /// The list of the modules in the ramdisk is missing or unreadable, so init loads no
    /// drivers. Build the ramdisk again, and compare its digest with the file that the host
    /// boots.
    #[error("cannot read the module index {}: {error}", .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    /// The list of the modules in the ramdisk is invalid; the text names the fault. Init
    /// loads no drivers; build the ramdisk again.
    #[error("cannot use {}: {error}", .path.display())]
    Unusable { path: PathBuf, error: ParseError },
}

pub(super) struct Modules {
    index: Index,
    directory: PathBuf,
    tried: Mutex<HashMap<ModuleId, Tried>>,
    /// Passes one module file to the kernel. Tests use another function, which behaves
    /// like a slow kernel.
    insert: Insert,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    Loading,
    Loaded,
    Refused,
}

/// The result of loading the modules for an alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A module is loaded, by this call or an earlier one, or is built into the
    /// kernel.
    Loaded,
    /// No module matches, or the kernel rejected every module that does.
    Nothing,
    /// Another thread is loading this module, which must come first.
    WaitsFor(ModuleId),
}

impl Modules {
    /// The modules that the builder put into the ramdisk for the running kernel.
    pub(super) fn of_running_kernel() -> Result<Self, IndexError> {
        let directory = Path::new("/lib/modules").join(module_file::kernel_release());
        let path = directory.join(INDEX_NAME);
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| {
            file.take(MAX_INDEX_BYTES as u64 + 1)
                .read_to_string(&mut text)
        });
        if let Err(error) = read {
            return Err(IndexError::Unreadable { path, error });
        }
        match Index::parse(&text) {
            Ok(index) => Ok(Self::new(index, directory, module_file::insert)),
            Err(error) => Err(IndexError::Unusable { path, error }),
        }
    }

    pub(super) fn new(
        index: Index,
        directory: PathBuf,
        insert: impl Fn(&Path) -> Result<(), InsertError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            index,
            directory,
            tried: Mutex::default(),
            insert: Box::new(insert),
        }
    }

    /// Loads every module that matches a modalias or name, and everything these modules
    /// depend on. Calls `after_each` whenever this call has loaded a module, or the
    /// kernel has rejected one.
    ///
    /// Never waits for a module that another thread is loading, but returns
    /// [`Outcome::WaitsFor`]. A driver can keep its thread in the kernel for minutes, and
    /// all other threads could end up waiting for it.
    pub(super) fn load_for(&self, alias: &str, after_each: impl Fn()) -> Outcome {
        let wanted = match self.index.resolve(alias) {
            Resolution::Modules(modules) => modules,
            Resolution::BuiltIn => return Outcome::Loaded,
            Resolution::Missing => return Outcome::Nothing,
        };
        let mut outcome = Outcome::Nothing;
        for level in self.index.load_order(wanted.iter().copied()) {
            let mut elsewhere = None;
            for id in level {
                match self.load_once(id, &after_each) {
                    Tried::Loading => elsewhere = Some(id),
                    Tried::Loaded if wanted.contains(&id) => outcome = Outcome::Loaded,
                    Tried::Loaded | Tried::Refused => {}
                }
            }
            if let Some(id) = elsewhere {
                return Outcome::WaitsFor(id);
            }
        }
        outcome
    }

    /// Loads this module, unless a thread has tried it before or is loading it now.
    /// Returns the state of the module.
    fn load_once(&self, id: ModuleId, after_each: &impl Fn()) -> Tried {
        let mut tried = lock(&self.tried);
        if let Some(known) = tried.get(&id) {
            return *known;
        }
        tried.insert(id, Tried::Loading);
        drop(tried);

        let path = self.directory.join(&self.index.module(id).path);
        let outcome = match (self.insert)(&path) {
            Ok(()) => Tried::Loaded,
            Err(error) => {
                tracing::warn!("cannot load the module {}: {error}", path.display());
                Tried::Refused
            }
        };
        lock(&self.tried).insert(id, outcome);
        after_each();
        outcome
    }

    pub(super) fn is_loading(&self, id: ModuleId) -> bool {
        lock(&self.tried).get(&id) == Some(&Tried::Loading)
    }

    /// The names of the modules that some thread is loading.
    pub(super) fn loading(&self) -> Vec<String> {
        let tried = lock(&self.tried);
        let loading = tried.iter().filter(|(_, state)| **state == Tried::Loading);
        loading
            .map(|(id, _)| self.index.module(*id).name.clone())
            .collect()
    }

    pub(super) fn count_loaded(&self) -> usize {
        let tried = lock(&self.tried);
        tried
            .values()
            .filter(|state| **state == Tried::Loaded)
            .count()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
