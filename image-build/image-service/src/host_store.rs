//! The hosts that the service knows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use landfall_host_media::{HostError, HostVersion};

use crate::base::Base;
use crate::request_path::is_host_name;
use crate::served_version::ServedVersion;

/// Why a host cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error(
        "host {0:?}: expected a name of letters, digits, `-`, `_` and `.` that begins with a letter or a digit"
    )]
    Name(String),
    #[error("host {name}: {fault}")]
    Host { name: String, fault: HostError },
}

/// The paths of one host's files on the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPaths {
    /// Identifies the content. It is the same in all copies of the service and after
    /// a restart, and changes with the base or with the host.
    pub id: String,
    /// `/ID/NAME.iso`: the content behind it never changes.
    pub iso: String,
    /// `/ID/NAME.initramfs`
    pub initramfs: String,
    /// `/ID/NAME.ipxe`
    pub ipxe: String,
    /// `/KERNELID/vmlinuz`: the kernel to which the ramdisk's modules belong.
    pub kernel: String,
    /// `/NAME.iso`: always the newest version.
    pub newest_iso: String,
}

impl HostPaths {
    fn new(name: &str, served: &ServedVersion) -> Self {
        let id = &served.id;
        Self {
            iso: format!("/{id}/{name}.iso"),
            initramfs: format!("/{id}/{name}.initramfs"),
            ipxe: format!("/{id}/{name}.ipxe"),
            kernel: served.base.kernel_path(),
            newest_iso: format!("/{name}.iso"),
            id: id.clone(),
        }
    }
}

/// The base, and what each host has in addition. Cheap to clone; all clones are the
/// same store.
#[derive(Debug, Clone)]
pub struct HostStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    table: RwLock<Table>,
    ready: AtomicBool,
}

#[derive(Debug)]
struct Table {
    base: Arc<Base>,
    hosts: HashMap<Box<str>, Arc<ServedVersion>>,
}

impl HostStore {
    /// A store without hosts, which is not ready yet.
    #[must_use]
    pub fn new(base: Base) -> Self {
        let table = Table {
            base: Arc::new(base),
            hosts: HashMap::new(),
        };
        Self(Arc::new(Inner {
            table: RwLock::new(table),
            ready: AtomicBool::new(false),
        }))
    }

    /// Whether the store has all hosts that it should have. Until then `/readyz`
    /// answers 503, and so does the path of an unknown host.
    pub fn set_ready(&self, ready: bool) {
        self.0.ready.store(ready, Ordering::Release);
    }

    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Ordering::Acquire)
    }

    /// The paths that a host with this content would have. The store stays unchanged.
    ///
    /// # Errors
    /// As for [`HostStore::put`].
    pub fn paths_of(&self, name: &str, version: &HostVersion) -> Result<HostPaths, PutError> {
        let served = served(self.base(), name, version.clone())?;
        Ok(HostPaths::new(name, &served))
    }

    /// Adds a host, or replaces it. A transfer that is under way ends with the old
    /// content.
    ///
    /// # Errors
    /// If the content does not fit into the areas of the base, or the name cannot be
    /// in a URL. Then the store is unchanged.
    pub fn put(&self, name: &str, version: HostVersion) -> Result<HostPaths, PutError> {
        let served = served(self.base(), name, version)?;
        let paths = HostPaths::new(name, &served);
        self.write().hosts.insert(name.into(), served);
        Ok(paths)
    }

    /// Removes a host. Returns whether it was there.
    pub fn remove(&self, name: &str) -> bool {
        self.write().hosts.remove(name).is_some()
    }

    /// Replaces the base and all hosts at once.
    ///
    /// # Errors
    /// For each host that does not fit. Then the store is unchanged.
    pub fn replace(
        &self,
        base: Arc<Base>,
        hosts: Vec<(String, HostVersion)>,
    ) -> Result<(), Vec<PutError>> {
        let mut faults = Vec::new();
        let mut table = Table {
            base: Arc::clone(&base),
            hosts: HashMap::with_capacity(hosts.len()),
        };
        for (name, version) in hosts {
            match served(Arc::clone(&base), &name, version) {
                Ok(served) => {
                    table.hosts.insert(name.into(), served);
                }
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        *self.write() = table;
        Ok(())
    }

    #[must_use]
    pub fn base(&self) -> Arc<Base> {
        Arc::clone(&self.read().base)
    }

    /// The present paths of a host.
    #[must_use]
    pub fn paths(&self, name: &str) -> Option<HostPaths> {
        let served = self.get(name)?;
        Some(HostPaths::new(name, &served))
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<ServedVersion>> {
        self.read().hosts.get(name).map(Arc::clone)
    }

    /// The number of hosts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().hosts.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of all hosts, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let table = self.read();
        let mut names: Vec<String> = table.hosts.keys().map(|name| name.to_string()).collect();
        names.sort_unstable();
        names
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.0.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.0.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn served(
    base: Arc<Base>,
    name: &str,
    version: HostVersion,
) -> Result<Arc<ServedVersion>, PutError> {
    if !is_host_name(name) {
        return Err(PutError::Name(name.to_owned()));
    }
    match ServedVersion::new(base, version) {
        Ok(served) => Ok(Arc::new(served)),
        Err(fault) => Err(PutError::Host {
            name: name.to_owned(),
            fault,
        }),
    }
}
