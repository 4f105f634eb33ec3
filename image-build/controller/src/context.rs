//! What all runs of the controller share.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};

use crate::health::Health;
use crate::host::HostKey;
use crate::images::Images;
use crate::leadership::Leadership;
use crate::own_writes::OwnWrites;
use crate::resource::PreprovisioningImage;
use crate::retry::Failures;
use crate::served::Served;
use crate::settings::Settings;

pub(crate) type SecretMetadata = PartialObjectMeta<Secret>;

pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) images: Images,
    pub(crate) settings: Settings,
    pub(crate) leadership: Leadership,
    pub(crate) served: Served,
    pub(crate) own_writes: OwnWrites,
    pub(crate) failures: Failures,
    pub(crate) health: Arc<Health>,
    /// All resources, as far as the watch has reported them.
    pub(crate) resources: Store<PreprovisioningImage>,
    /// The metadata of the Secrets with metal3's label.
    pub(crate) secrets: Store<SecretMetadata>,
    /// Resources of the first list that still exist and have had no run yet. `None`
    /// before the first list has arrived.
    first_list: Mutex<Option<HashSet<HostKey>>>,
}

impl Context {
    pub(crate) fn new(
        client: Client,
        images: Images,
        settings: Settings,
        leadership: Leadership,
        health: Arc<Health>,
        resources: Store<PreprovisioningImage>,
        secrets: Store<SecretMetadata>,
    ) -> Self {
        Self {
            client,
            images,
            settings,
            leadership,
            served: Served::default(),
            own_writes: OwnWrites::default(),
            failures: Failures::default(),
            health,
            resources,
            secrets,
            first_list: Mutex::new(None),
        }
    }

    /// The `resourceVersion` of a Secret according to the watch; `None` if the watch has
    /// not reported the Secret.
    pub(crate) fn secret_version(&self, namespace: &str, name: &str) -> Option<String> {
        let secret = self.secrets.get(&ObjectRef::new(name).within(namespace))?;
        secret.metadata.resource_version.clone()
    }

    /// Stops serving the image of a host, and forgets its state. The resource of the host
    /// is deleted, or belongs to another controller now.
    pub(crate) fn withdraw(&self, key: &HostKey) {
        self.images.withdraw(key);
        self.served.remove(key);
        self.own_writes.remove(key);
        self.failures.clear(key);
        self.health.published(self.served.count());
        self.needs_no_first_run(|waiting| waiting == key);
    }

    /// Whether the resource with this UID still exists. If it was deleted and created
    /// again, the new resource has another UID.
    pub(crate) fn exists(&self, key: &HostKey, uid: &str) -> bool {
        let reference = ObjectRef::new(&key.name).within(&key.namespace);
        let resource = self.resources.get(&reference);
        resource.is_some_and(|resource| resource.uid() == uid)
    }

    /// Call this when the watch has listed all resources.
    pub(crate) fn listed(&self) {
        let all = self.resources.state();
        let keys: HashSet<HostKey> = all.iter().map(|resource| resource.key()).collect();
        for key in self.served.keys() {
            if !keys.contains(&key) {
                self.withdraw(&key);
            }
        }
        // A list is newer than all earlier writes. If somebody has restored an old state
        // of etcd, the versions in the list are lower, but they are the valid ones.
        self.own_writes.clear();
        // A resource that is no longer there gets no run.
        self.needs_no_first_run(|waiting| !keys.contains(waiting));
        let mut first_list = self.lock_first_list();
        if first_list.is_none() {
            tracing::info!("listed {} PreprovisioningImages", keys.len());
            if keys.is_empty() {
                self.declare_ready();
            }
            *first_list = Some(keys);
        }
    }

    /// Call this when a run for this resource has ended.
    pub(crate) fn run_ended(&self, key: &HostKey) {
        self.health.published(self.served.count());
        self.needs_no_first_run(|waiting| waiting == key);
    }

    /// Removes from the first list every resource for which `is_done` is true. If this
    /// empties the list, this copy becomes ready.
    fn needs_no_first_run(&self, is_done: impl Fn(&HostKey) -> bool) {
        if let Some(waiting) = self.lock_first_list().as_mut()
            && !waiting.is_empty()
        {
            waiting.retain(|key| !is_done(key));
            if waiting.is_empty() {
                self.declare_ready();
            }
        }
    }

    fn lock_first_list(&self) -> MutexGuard<'_, Option<HashSet<HostKey>>> {
        self.first_list
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn declare_ready(&self) {
        self.images.set_ready();
        self.health.ready();
    }
}
