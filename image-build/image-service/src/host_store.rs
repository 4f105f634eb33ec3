//! The hosts that the service knows.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use landfall_host_media::{HostError, HostVersion};
use landfall_initramfs::parallel;

use crate::base::Base;
use crate::request_path::{Kind, is_served_name};
use crate::served_version::ServedVersion;

/// The largest number of replaced versions of a host that are kept.
const MAX_REPLACED: usize = 4;

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
    /// The previous base, as long as a replaced version needs it. A base can have
    /// gigabytes, so only one is kept.
    previous: Option<Arc<Base>>,
    hosts: HashMap<Box<str>, Host>,
}

#[derive(Debug)]
struct Host {
    newest: Arc<ServedVersion>,
    /// Replaced versions that clients are reading, the latest one first.
    replaced: Vec<Arc<ServedVersion>>,
}

/// A request for a file of a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: Option<&'a str>,
    pub(crate) kind: Kind,
    pub(crate) client: IpAddr,
    /// The request is for a part of the file.
    pub(crate) is_part: bool,
}

/// What the store has for a request.
#[derive(Debug)]
pub(crate) enum Found {
    Version(Arc<ServedVersion>),
    /// Another version of the host.
    Other,
    NoHost,
}

impl HostStore {
    /// A store without hosts, which is not ready yet.
    #[must_use]
    pub fn new(base: Base) -> Self {
        let table = Table {
            base: Arc::new(base),
            previous: None,
            hosts: HashMap::new(),
        };
        Self(Arc::new(Inner {
            table: RwLock::new(table),
            ready: AtomicBool::new(false),
        }))
    }

    /// Sets whether the store has all hosts that it should have. Until then `/readyz`
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

    /// Adds a host, or replaces it. A client that is reading the old content
    /// continues to get it.
    ///
    /// # Errors
    /// If the content is not valid or does not fit into the areas of the base, or if the
    /// name cannot be in a URL. Then the store is unchanged.
    pub fn put(&self, name: &str, version: HostVersion) -> Result<HostPaths, PutError> {
        let served = served(self.base(), name, version)?;
        let paths = HostPaths::new(name, &served);
        let mut table = self.write();
        let old = table.hosts.remove(name);
        let host = Host::after(old, served, Instant::now());
        table.hosts.insert(name.into(), host);
        Ok(paths)
    }

    /// Removes all versions of a host: the caller may have withdrawn a secret. Returns
    /// whether the host was there.
    pub fn remove(&self, name: &str) -> bool {
        self.write().hosts.remove(name).is_some()
    }

    /// Replaces the base and all hosts at once. A client that is reading the old
    /// content of a host continues to get it; hosts that are not in the list are
    /// removed.
    ///
    /// # Errors
    /// One error for each host that cannot be served. Then the store is unchanged.
    pub fn replace(
        &self,
        base: Arc<Base>,
        hosts: Vec<(String, HostVersion)>,
    ) -> Result<(), Vec<PutError>> {
        // If the base was read again and has not changed, keep the current object, so
        // that the versions that clients are reading stay the newest.
        let base = match self.base() {
            present if present.is_same(&base) => present,
            _ => base,
        };
        let mut faults = Vec::new();
        let mut new: HashMap<Box<str>, Arc<ServedVersion>> = HashMap::with_capacity(hosts.len());
        let made = parallel::map(&hosts, |(name, version)| {
            // Cheap: the bytes of a version are shared.
            served(Arc::clone(&base), name, version.clone())
        });
        for ((name, _), made) in hosts.into_iter().zip(made) {
            match made {
                Ok(served) => {
                    new.insert(name.into(), served);
                }
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let now = Instant::now();
        let mut table = self.write();
        let mut old = std::mem::take(&mut table.hosts);
        if !Arc::ptr_eq(&table.base, &base) {
            table.previous = Some(std::mem::replace(&mut table.base, base));
        }
        table.hosts = new
            .into_iter()
            .map(|(name, served)| {
                let host = Host::after(old.remove(&name), served, now);
                (name, host)
            })
            .collect();
        table.drop_unused(now);
        Ok(())
    }

    /// Frees the memory of replaced versions that nobody has read for an hour, and of
    /// their base.
    pub fn drop_unused(&self) {
        self.write().drop_unused(Instant::now());
    }

    #[must_use]
    pub fn base(&self) -> Arc<Base> {
        Arc::clone(&self.read().base)
    }

    /// The current paths of a host.
    #[must_use]
    pub fn paths(&self, name: &str) -> Option<HostPaths> {
        let table = self.read();
        Some(HostPaths::new(name, &table.hosts.get(name)?.newest))
    }

    /// The newest version of a host, with its paths.
    pub(crate) fn newest(&self, name: &str) -> Option<(HostPaths, Arc<ServedVersion>)> {
        let newest = Arc::clone(&self.read().hosts.get(name)?.newest);
        Some((HostPaths::new(name, &newest), newest))
    }

    /// The version of a host for a request.
    ///
    /// A BMC reads an ISO with thousands of requests for parts and joins the parts,
    /// without comparing their ETags. So a client that reads parts of `/NAME` gets the
    /// same version until it pauses for a long time, requests the whole file or sends
    /// HEAD, as a BMC does when a medium is inserted. With a redirect to `/ID/NAME`,
    /// the service would not have to remember clients. But some BMCs do not follow
    /// redirects, and others follow the first redirect and then request the parts from
    /// the first URL.
    pub(crate) fn find(&self, wanted: &Wanted<'_>) -> Found {
        let Wanted { client, kind, .. } = *wanted;
        let now = Instant::now();
        let table = self.read();
        let Some(host) = table.hosts.get(wanted.name) else {
            return Found::NoHost;
        };
        if let Some(id) = wanted.id {
            let mut all = std::iter::once(&host.newest).chain(&host.replaced);
            let Some(version) = all.find(|version| version.id == id) else {
                return Found::Other;
            };
            version.used(now);
            return Found::Version(Arc::clone(version));
        }
        let version = match wanted.is_part {
            true => {
                let mut replaced = host.replaced.iter();
                replaced.find(|version| version.is_read_by(client, kind, now))
            }
            false => {
                for version in &host.replaced {
                    version.forget(client, kind);
                }
                None
            }
        };
        let version = version.unwrap_or(&host.newest);
        version.read_by(client, kind, now);
        Found::Version(Arc::clone(version))
    }

    /// The base with this kernel: the present one, or the one before it.
    pub(crate) fn base_of_kernel(&self, id: &str) -> Option<Arc<Base>> {
        let table = self.read();
        let mut bases = std::iter::once(&table.base).chain(&table.previous);
        bases.find(|base| base.kernel_id() == id).map(Arc::clone)
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

    /// For each host the path of its ISO with its id, sorted by name.
    pub(crate) fn isos(&self) -> BTreeMap<String, String> {
        let table = self.read();
        let hosts = table.hosts.iter();
        hosts
            .map(|(name, host)| (name.to_string(), HostPaths::new(name, &host.newest).iso))
            .collect()
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

impl Table {
    fn drop_unused(&mut self, now: Instant) {
        let Self {
            base,
            previous,
            hosts,
        } = self;
        let mut needs_previous = false;
        for host in hosts.values_mut() {
            host.replaced.retain(|version| {
                let of_previous = |base: &Arc<Base>| Arc::ptr_eq(base, &version.base);
                let is_older = !of_previous(base) && !previous.as_ref().is_some_and(of_previous);
                version.is_in_use(now) && !is_older
            });
            let mut replaced = host.replaced.iter();
            needs_previous |= replaced.any(|version| !Arc::ptr_eq(base, &version.base));
        }
        if !needs_previous {
            *previous = None;
        }
    }
}

impl Host {
    /// The host with its new version.
    fn after(old: Option<Self>, served: Arc<ServedVersion>, now: Instant) -> Self {
        let Some(mut old) = old else {
            return Self {
                newest: served,
                replaced: Vec::new(),
            };
        };
        if old.newest.id == served.id {
            return old;
        }
        old.replaced.insert(0, old.newest);
        // An old version can become the newest again; it keeps its readers.
        let is_it = |version: &Arc<ServedVersion>| {
            version.id == served.id && Arc::ptr_eq(&version.base, &served.base)
        };
        let newest = match old.replaced.iter().position(is_it) {
            Some(at) => old.replaced.remove(at),
            None => served,
        };
        old.replaced
            .retain(|version| version.id != newest.id && version.is_in_use(now));
        old.replaced.truncate(MAX_REPLACED);
        Self {
            newest,
            replaced: old.replaced,
        }
    }
}

fn served(
    base: Arc<Base>,
    name: &str,
    version: HostVersion,
) -> Result<Arc<ServedVersion>, PutError> {
    if !is_served_name(name) {
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
