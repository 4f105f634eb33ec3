//! Finds the modules of one kernel: their files, their `.modinfo` and their
//! dependencies.
//!
//! The builder does not use `depmod`'s files: a kernel's .deb does not contain them, and
//! the modules themselves contain the same data.

use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use landfall_module_index::{
    self as module_index, BuiltIn, DevicePattern, IndexContent, LeftOutModule, module_name, pattern,
};

use crate::modinfo::{self, ModInfo, ModuleFileError};
use crate::parallel;
use crate::path_error::{PathError, read_bounded};

/// The size limit of a list in bytes. The `modules.builtin.modinfo` of a Debian kernel
/// has 37 kB. A kernel with everything built in has a few MB.
const MAX_LIST_BYTES: u64 = 64 << 20;
/// The maximum depth of a directory search. No kernel's module tree is deeper.
const MAX_DEPTH: usize = 16;

/// The directories in which the builder looks for aliases that softdeps name. These
/// aliases are always algorithms (`crypto-crc32c`). Outside these directories, only
/// drivers of accelerator cards provide algorithms, and such a driver must not be loaded
/// only for a checksum.
const ALIAS_DIRECTORIES: [&str; 3] = ["kernel/crypto/", "kernel/arch/", "kernel/lib/"];

/// The directories of the drivers of network cards and disk controllers, below `kernel/`
/// or `extra/`. The ramdisk contains a list of the drivers in these directories that it
/// lacks.
const DRIVER_DIRECTORIES: [&str; 11] = [
    "drivers/ata/",
    "drivers/block/",
    "drivers/infiniband/hw/",
    "drivers/message/",
    "drivers/mmc/host/",
    "drivers/net/",
    "drivers/nvme/host/",
    "drivers/pci/controller/",
    "drivers/scsi/",
    "drivers/usb/host/",
    "drivers/usb/storage/",
];

/// The buses that network cards and disk controllers are on, as aliases name them.
const BUSES: [&str; 5] = ["pci:", "usb:", "virtio:", "vmbus:", "xen:"];

/// A kernel's module directory, `/lib/modules/<release>`.
#[derive(Debug)]
pub struct ModuleTree {
    directory: PathBuf,
    /// The path of each module below `directory`, by the normalised name.
    files: BTreeMap<String, String>,
    /// The position of each module in the kernel's link order (`modules.order`), by the
    /// normalised name. depmod also uses this order for modules that claim the same
    /// device.
    link_order: HashMap<String, usize>,
    built_in: BTreeMap<String, ModInfo>,
}

/// The selected modules and everything they need, by name.
pub type Selection = BTreeMap<String, ModInfo>;

/// Why the modules of a kernel cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModulesError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    File(#[from] ModuleFileError),
    #[error("{directory}: expected kernel modules or a modules.builtin file, found neither")]
    NoModules {
        /// The directory that was searched.
        directory: PathBuf,
    },
    #[error("kernel module `{name}` exists twice: {first} and {second}")]
    Twice {
        name: String,
        first: String,
        second: String,
    },
    #[error(
        "kernel module `{user}` needs `{missing}`, which is neither in {directory} nor built in"
    )]
    MissingDependency {
        user: String,
        missing: String,
        directory: PathBuf,
    },
    #[error("kernel module {path} was built for kernel {found}, expected {expected}")]
    WrongKernel {
        path: String,
        /// The release of the kernel that the ramdisk is for.
        expected: String,
        /// The release in the module's vermagic.
        found: String,
    },
}

impl ModuleTree {
    /// Lists a module directory without reading the modules. Fails if the directory or
    /// one of its lists cannot be read, if it names no module, or if two modules of the
    /// same rank have the same name.
    pub fn open(directory: &Path) -> Result<Self, ModulesError> {
        let mut paths = Vec::new();
        walk(directory, "", 0, &mut paths)?;
        paths.sort();
        let mut files = BTreeMap::new();
        for path in paths {
            let file_name = path.rsplit('/').next().unwrap_or_default();
            let Some(name) = module_name::of_file(file_name) else {
                continue;
            };
            match files.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(path);
                }
                Entry::Occupied(mut entry) => match rank(&path).cmp(&rank(entry.get())) {
                    Ordering::Less => {
                        entry.insert(path);
                    }
                    Ordering::Greater => {}
                    Ordering::Equal => {
                        return Err(ModulesError::Twice {
                            name: entry.key().clone(),
                            first: entry.get().clone(),
                            second: path,
                        });
                    }
                },
            }
        }
        let built_in = built_in(directory)?;
        if files.is_empty() && built_in.is_empty() {
            return Err(ModulesError::NoModules {
                directory: directory.to_owned(),
            });
        }
        let order = optional(&directory.join("modules.order"))?;
        let link_order = String::from_utf8_lossy(&order)
            .lines()
            .filter_map(|line| module_name::of_file(line.rsplit('/').next()?))
            .zip(0..)
            .collect();
        Ok(Self {
            directory: directory.to_owned(),
            files,
            link_order,
            built_in,
        })
    }

    /// Names of the modules that are files, not built in.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The path of a module below [`ModuleTree::directory`].
    #[must_use]
    pub fn path_of(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(String::as_str)
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether a module is part of the kernel image.
    #[must_use]
    pub fn is_built_in(&self, name: &str) -> bool {
        self.built_in.contains_key(name)
    }

    /// Returns the named modules and all their hard and soft dependencies. Names that are
    /// built in or unknown are skipped; [`crate::module_set`] reports the unknown names.
    /// Fails if a module cannot be read or lacks a hard dependency.
    pub fn closure(
        &self,
        names: impl IntoIterator<Item = String>,
    ) -> Result<Selection, ModulesError> {
        let mut selection = Selection::new();
        let mut aliases: Option<HashMap<String, Vec<String>>> = None;
        let mut wave: BTreeSet<String> = names
            .into_iter()
            .filter(|name| self.files.contains_key(name))
            .collect();
        while !wave.is_empty() {
            let mut next = BTreeSet::new();
            for (name, info) in self.read(wave)? {
                for need in &info.depends {
                    if self.files.contains_key(need) {
                        next.insert(need.clone());
                    } else if !self.is_built_in(need) {
                        let directory = self.directory.clone();
                        return Err(ModulesError::MissingDependency {
                            user: name,
                            missing: need.clone(),
                            directory,
                        });
                    }
                }
                for softdep in info.softdeps_before.iter().chain(&info.softdeps_after) {
                    let target = module_name::normalise(softdep);
                    if self.files.contains_key(target.as_ref()) {
                        next.insert(target.into_owned());
                    } else if !self.is_built_in(&target) {
                        let table = match &mut aliases {
                            Some(table) => table,
                            none => none.insert(self.algorithm_aliases()?),
                        };
                        next.extend(table.get(target.as_ref()).into_iter().flatten().cloned());
                    }
                }
                selection.insert(name, info);
            }
            wave = next
                .into_iter()
                .filter(|name| !selection.contains_key(name))
                .collect();
        }
        Ok(selection)
    }

    /// Checks that the modules were built for kernel `release`. The error names the first
    /// module that was built for another kernel. A module that names no kernel passes.
    pub fn check_vermagic(&self, selection: &Selection, release: &str) -> Result<(), ModulesError> {
        for (name, info) in selection {
            if let Some(found) = info.kernel_release()
                && found != release
            {
                let path = self.path_of(name).unwrap_or(name).to_owned();
                return Err(ModulesError::WrongKernel {
                    path,
                    expected: release.to_owned(),
                    found: found.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The index from which init loads the modules of `selection`.
    #[must_use]
    pub fn index(&self, selection: &Selection, kernel_release: &str) -> IndexContent {
        let mut modules: Vec<module_index::Module> = selection
            .iter()
            .filter_map(|(name, info)| {
                Some(module_index::Module {
                    name: name.clone(),
                    path: self.path_of(name)?.to_owned(),
                    needs: info.depends.clone(),
                    softdeps_before: info.softdeps_before.clone(),
                    softdeps_after: info.softdeps_after.clone(),
                    aliases: info.aliases.clone(),
                })
            })
            .collect();
        // The sort is stable: modules that are not in `modules.order` are last and remain
        // sorted by name.
        modules.sort_by_key(|module| {
            self.link_order
                .get(&module.name)
                .copied()
                .unwrap_or(usize::MAX)
        });
        let built_in = self.built_in.iter().map(|(name, info)| BuiltIn {
            name: name.clone(),
            // Keep only names that a softdep can use. Patterns match devices, but init
            // loads no module for a device whose driver is built in.
            aliases: info
                .aliases
                .iter()
                .filter(|alias| is_plain_name(alias))
                .cloned()
                .collect(),
        });
        IndexContent {
            kernel_release: kernel_release.to_owned(),
            modules,
            built_in: built_in.collect(),
        }
    }

    /// The drivers of network cards and disk controllers on PCI, USB, virtio, VMBus and
    /// Xen that are not in `selection`.
    ///
    /// # Errors
    /// If a module cannot be read.
    pub fn left_out(&self, selection: &Selection) -> Result<Vec<LeftOutModule>, ModulesError> {
        // RHEL 8 and 9 have the drivers of kernel-modules-extra below `extra/`.
        let is_driver = |path: &str| {
            let below = ["kernel/", "extra/"].into_iter();
            let mut below = below.filter_map(|top| path.strip_prefix(top));
            below.any(|path| DRIVER_DIRECTORIES.iter().any(|top| path.starts_with(top)))
        };
        let names = self
            .files
            .iter()
            .filter(|(name, path)| is_driver(path) && !selection.contains_key(name.as_str()));
        let modules = self.read(names.map(|(name, _)| name.clone()))?;
        let modules = modules.into_iter().map(|(name, info)| {
            let aliases = info.aliases.iter();
            let devices = aliases.filter(|alias| BUSES.iter().any(|bus| alias.starts_with(bus)));
            let devices = devices
                .map(|alias| DevicePattern::of_alias(alias))
                .collect();
            LeftOutModule { name, devices }
        });
        Ok(modules
            .filter(|module| !module.devices.is_empty())
            .collect())
    }

    fn read(
        &self,
        names: impl IntoIterator<Item = String>,
    ) -> Result<Vec<(String, ModInfo)>, ModuleFileError> {
        let files: Vec<(String, PathBuf)> = names
            .into_iter()
            .filter_map(|name| {
                self.files
                    .get(&name)
                    .map(|path| (name, self.directory.join(path)))
            })
            .collect();
        let infos = parallel::map(&files, |(_, path)| ModInfo::of_file(path));
        files
            .into_iter()
            .zip(infos)
            .map(|((name, _), info)| info.map(|info| (name, info)))
            .collect()
    }

    /// The names of the modules in [`ALIAS_DIRECTORIES`], by each of their normalised
    /// aliases.
    fn algorithm_aliases(&self) -> Result<HashMap<String, Vec<String>>, ModuleFileError> {
        let in_directories = |path: &str| {
            ALIAS_DIRECTORIES
                .iter()
                .any(|directory| path.starts_with(directory))
        };
        let names = self
            .files
            .iter()
            .filter(|(_, path)| in_directories(path))
            .map(|(name, _)| name.clone());
        let mut table: HashMap<String, Vec<String>> = HashMap::new();
        for (name, info) in self.read(names)? {
            for alias in &info.aliases {
                table
                    .entry(module_name::normalise_alias(alias).into_owned())
                    .or_default()
                    .push(name.clone());
            }
        }
        Ok(table)
    }
}

/// The rank of a module's directory in depmod's order of preference (`search` in
/// depmod.d(5), and the `dist.conf` of RHEL): a driver that was added to a system
/// replaces the kernel's own driver.
fn rank(path: &str) -> usize {
    let directories = ["updates/", "extra/"];
    let place = directories.iter().position(|top| path.starts_with(top));
    place.unwrap_or(directories.len())
}

fn is_plain_name(alias: &str) -> bool {
    !alias.contains(':') && !pattern::has_wildcards(alias)
}

/// Collects the paths of all files, relative to `top`.
fn walk(top: &Path, below: &str, depth: usize, found: &mut Vec<String>) -> Result<(), PathError> {
    let directory = top.join(below);
    for entry in std::fs::read_dir(&directory).map_err(PathError::new("cannot list", &directory))? {
        let entry = entry.map_err(PathError::new("cannot list", &directory))?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        let kind = entry
            .file_type()
            .map_err(PathError::new("cannot look at", entry.path()))?;
        // Do not follow links: `build` and `source` link to header trees.
        if kind.is_dir() && depth < MAX_DEPTH {
            walk(top, &path, depth + 1, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

/// The built-in modules: `modules.builtin` contains their names,
/// `modules.builtin.modinfo` (since Linux 5.2) their modinfo.
fn built_in(directory: &Path) -> Result<BTreeMap<String, ModInfo>, PathError> {
    let mut built_in: BTreeMap<String, ModInfo> =
        String::from_utf8_lossy(&optional(&directory.join("modules.builtin"))?)
            .lines()
            .filter_map(|line| module_name::of_file(line.rsplit('/').next()?))
            .map(|name| (name, ModInfo::default()))
            .collect();
    for (key, value) in modinfo::pairs(&optional(&directory.join("modules.builtin.modinfo"))?) {
        if let Some((name, key)) = key.split_once('.')
            && let Some(info) = built_in.get_mut(module_name::normalise(name).as_ref())
        {
            info.add(key, &value);
        }
    }
    Ok(built_in)
}

/// The content of a file; empty if the file does not exist.
fn optional(path: &Path) -> Result<Vec<u8>, PathError> {
    if path.exists() {
        read_bounded(path, MAX_LIST_BYTES)
    } else {
        Ok(Vec::new())
    }
}

#[cfg(test)]
pub(crate) mod tests;
