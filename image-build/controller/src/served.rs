//! What this copy of the controller has rendered and published, by host.
//!
//! Nothing here is needed after a restart: the same resource and the same Secret
//! give the same image under the same URL.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::host::HostKey;
use crate::images::ImageUrls;
use crate::outcome::Wanted;
use crate::reconcile::ImageView;

/// What an image was rendered from. As long as the origin is the same, there is no need
/// to read the Secret again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The resource's UID. A new resource of the same name has another UID.
    pub(crate) uid: String,
    pub(crate) wanted: Wanted,
}

/// What this copy has done for one host.
#[derive(Clone, Debug, Default)]
struct Record {
    /// The URL of the image that the store serves.
    published: Option<String>,
    /// The result of the last rendering, if it was a refusal or was published.
    last: Option<(Origin, ImageView)>,
}

#[derive(Debug, Default)]
pub(crate) struct Served(Mutex<HashMap<HostKey, Record>>);

impl Served {
    /// The URL under which the host's image is served.
    pub(crate) fn published(&self, key: &HostKey) -> Option<String> {
        self.lock().get(key)?.published.clone()
    }

    /// The last result of this host, if it is for this origin.
    pub(crate) fn result(&self, key: &HostKey, origin: &Origin) -> Option<ImageView> {
        let (last, result) = self.lock().get(key)?.last.clone()?;
        (last == *origin).then_some(result)
    }

    /// Whether the last result is an image that was made from this version of the Secret
    /// `name`.
    pub(crate) fn is_of_secret(&self, key: &HostKey, uid: &str, name: &str, version: &str) -> bool {
        let records = self.lock();
        let last = records.get(key).and_then(|record| record.last.as_ref());
        last.is_some_and(|(origin, result)| {
            let data = &origin.wanted.network_data;
            let is_same = origin.uid == uid && data.name == name && data.version == version;
            is_same && matches!(result, ImageView::Rendered(_))
        })
    }

    /// Forgets the last result. The published image stays.
    pub(crate) fn remove_result(&self, key: &HostKey) {
        if let Some(record) = self.lock().get_mut(key) {
            record.last = None;
        }
    }

    /// Records that the host can have no image. The previous image stays published: a
    /// host may be reading it.
    pub(crate) fn refused(&self, key: &HostKey, origin: Origin, reason: String) {
        let last = Some((origin, ImageView::Refused(reason)));
        self.lock().entry(key.clone()).or_default().last = last;
    }

    pub(crate) fn is_published(&self, key: &HostKey, origin: Origin, urls: ImageUrls) {
        let record = Record {
            published: Some(urls.image.clone()),
            last: Some((origin, ImageView::Rendered(urls))),
        };
        self.lock().insert(key.clone(), record);
    }

    pub(crate) fn remove(&self, key: &HostKey) {
        self.lock().remove(key);
    }

    pub(crate) fn keys(&self) -> Vec<HostKey> {
        self.lock().keys().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        let records = self.lock();
        let published = |record: &&Record| record.published.is_some();
        records.values().filter(published).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HostKey, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
