//! The events that lead to a run.
//!
//! Each watch has its own delay after an error, so the resources are watched even if a
//! role forbids access to the Secrets. A list that is read again takes effect as a
//! whole, after the store has received all of it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store, reflector};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};

use crate::claim::{LABEL, LABEL_VALUE};
use crate::context::{Context, SecretMetadata};
use crate::resource::PreprovisioningImage;

pub(crate) type Request = Result<ObjectRef<PreprovisioningImage>, Infallible>;
type Requests = BoxStream<'static, Request>;

/// The delays after failed watches: a sixth of kube's delays, which grow to 30 s plus a
/// random part of up to the same length. A watch often fails twice after an outage:
/// first because the API server is not ready yet, then because the API server no longer
/// has the version. With kube's delays a changed Secret waited for up to two minutes.
/// Short delays cost little, because a copy has only two watches.
#[derive(Default)]
struct WatchDelays(watcher::DefaultBackoff);

impl Iterator for WatchDelays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|delay| delay / 6)
    }
}

impl Backoff for WatchDelays {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// Changes of resources.
pub(crate) fn resources(writer: Writer<PreprovisioningImage>, context: &Arc<Context>) -> Requests {
    let api = api::<PreprovisioningImage>(context);
    let events = watcher(api, watcher::Config::default()).backoff(WatchDelays::default());
    let context = Arc::clone(context);
    reflector(writer, events.map(without_bulk))
        .flat_map(move |event| {
            stream::iter(match event {
                Ok(Event::Apply(resource)) => vec![ObjectRef::from_obj(&resource)],
                Ok(Event::InitDone) => {
                    context.listed();
                    all(&context.resources)
                }
                Ok(Event::Delete(resource)) => {
                    context.withdraw(&resource.key());
                    vec![]
                }
                Ok(Event::Init | Event::InitApply(_)) => vec![],
                Err(error) => {
                    log_watch_error("PreprovisioningImages", &error);
                    vec![]
                }
            })
        })
        .map(Ok)
        .boxed()
}

/// Changes of Secrets that a resource owns. The type `SecretMetadata` makes kube request
/// only the metadata of Secrets: the Secrets with the BMCs' passwords have the same
/// label, and the controller must not read them.
pub(crate) fn secrets(writer: Writer<SecretMetadata>, context: &Arc<Context>) -> Requests {
    let api = api::<SecretMetadata>(context);
    let labelled = watcher::Config::default().labels(&format!("{LABEL}={LABEL_VALUE}"));
    let events = watcher(api, labelled).backoff(WatchDelays::default());
    let context = Arc::clone(context);
    reflector(writer, events.map(without_bulk))
        .flat_map(move |event| {
            stream::iter(match event {
                Ok(Event::Apply(secret) | Event::Delete(secret)) => owners(&secret),
                // All resources get a run, because no event reports that a Secret
                // disappeared, or lost its label or its owner, while the watch was
                // interrupted.
                Ok(Event::InitDone) => all(&context.resources),
                Ok(Event::Init | Event::InitApply(_)) => vec![],
                Err(error) => {
                    log_watch_error("Secrets", &error);
                    vec![]
                }
            })
        })
        .map(Ok)
        .boxed()
}

/// Requests a run for all resources each time this copy begins to hold the lease.
pub(crate) fn everything(context: &Arc<Context>) -> Requests {
    let leader = stream::unfold(context.leadership.clone(), async |mut leadership| {
        leadership.begins().await.then_some(((), leadership))
    });
    let resources = context.resources.clone();
    leader
        .flat_map(move |()| stream::iter(all(&resources)))
        .map(Ok)
        .boxed()
}

fn api<K>(context: &Context) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    let client = context.client.clone();
    match &context.settings.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

/// Removes the managed fields and the annotations, which the controller does not need and
/// which are about half of an object.
fn without_bulk<K: Resource>(
    event: Result<Event<K>, watcher::Error>,
) -> Result<Event<K>, watcher::Error> {
    event.map(|event| {
        event.modify(|object| {
            object.meta_mut().managed_fields = None;
            object.meta_mut().annotations = None;
        })
    })
}

fn all(resources: &Store<PreprovisioningImage>) -> Vec<ObjectRef<PreprovisioningImage>> {
    let resources = resources.state();
    resources
        .iter()
        .map(|resource| ObjectRef::from_obj(&**resource))
        .collect()
}

/// The resources that own a Secret, whether as its controller or not.
fn owners(secret: &SecretMetadata) -> Vec<ObjectRef<PreprovisioningImage>> {
    let namespace = secret.metadata.namespace.as_deref();
    let owners = secret.metadata.owner_references.iter().flatten();
    owners
        .filter_map(|owner| ObjectRef::from_owner_ref(namespace, owner, ()))
        .collect()
}

fn log_watch_error(what: &str, error: &watcher::Error) {
    tracing::warn!("cannot watch {what}: {error}; the controller tries again");
}
