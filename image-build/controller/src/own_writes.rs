//! Checks whether the watch has already reported this copy's last write of a resource.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::host::HostKey;
use crate::resource::PreprovisioningImage;

/// The versions of the resources after this copy's last writes.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites(Mutex<HashMap<HostKey, u64>>);

impl OwnWrites {
    /// Records a write of this copy. `resource` is the API server's answer.
    pub(crate) fn note(&self, resource: &PreprovisioningImage) {
        if let Some(version) = version(resource) {
            self.lock().insert(resource.key(), version);
        }
    }

    /// Whether the resource is older than this copy's last write. The event of that
    /// write has not arrived yet; a run before this event would end with a conflict.
    pub(crate) fn are_after(&self, resource: &PreprovisioningImage) -> bool {
        let last = self.lock().get(&resource.key()).copied();
        last.zip(version(resource))
            .is_some_and(|(last, found)| found < last)
    }

    pub(crate) fn remove(&self, key: &HostKey) {
        self.lock().remove(key);
    }

    /// Forgets all writes.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HostKey, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The version, if it is a number. Kubernetes promises since 1.35 that versions of one
/// kind can be compared (its API concepts, "resource versions"); before 1.35 they were
/// etcd's counter, which can be compared as well. If an API server has other versions,
/// the only effect is more conflicts.
fn version(resource: &PreprovisioningImage) -> Option<u64> {
    resource.resource_version().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_older_version_waits_for_its_event() {
        let at = |version: &str| {
            let mut resource = PreprovisioningImage::default();
            resource.metadata.name = Some("host-0".to_owned());
            resource.metadata.resource_version = Some(version.to_owned());
            resource
        };
        let writes = OwnWrites::default();
        assert!(!writes.are_after(&at("9")));
        writes.note(&at("10"));
        for (version, expected) in [("9", true), ("10", false), ("11", false), ("x9", false)] {
            assert_eq!(writes.are_after(&at(version)), expected, "{version}");
        }
        writes.remove(&at("10").key());
        assert!(!writes.are_after(&at("9")));
        writes.note(&at("10"));
        writes.clear();
        assert!(!writes.are_after(&at("9")));
    }
}
