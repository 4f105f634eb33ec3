//! The members of an Ignition config that this crate reads (Ignition's configuration
//! specification 3.0 to 3.6). `null` is the same as a missing member.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub(crate) struct Config {
    pub(crate) ignition: Ignition,
    pub(crate) storage: Option<Storage>,
    pub(crate) systemd: Option<Systemd>,
    pub(crate) passwd: Option<Passwd>,
    #[serde(flatten)]
    pub(crate) others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
pub(crate) struct Ignition {
    pub(crate) version: Option<String>,
    pub(crate) config: Option<References>,
    pub(crate) security: Option<Security>,
    #[serde(flatten)]
    pub(crate) others: BTreeMap<String, Value>,
}

/// Other configs.
#[derive(Deserialize)]
pub(crate) struct References {
    pub(crate) merge: Option<Vec<Resource>>,
    pub(crate) replace: Option<Resource>,
}

#[derive(Deserialize)]
pub(crate) struct Security {
    pub(crate) tls: Option<Tls>,
}

#[derive(Deserialize)]
pub(crate) struct Tls {
    #[serde(rename = "certificateAuthorities")]
    pub(crate) authorities: Option<Vec<Resource>>,
}

/// The entries are parsed one by one, so that a faulty one does not make the others
/// useless.
#[derive(Deserialize)]
pub(crate) struct Storage {
    pub(crate) files: Option<Vec<Value>>,
    #[serde(flatten)]
    pub(crate) others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) contents: Option<Resource>,
    pub(crate) append: Option<Vec<Resource>>,
}

/// A content and how to get it.
#[derive(Clone, Deserialize)]
pub(crate) struct Resource {
    pub(crate) source: Option<String>,
    pub(crate) compression: Option<String>,
    pub(crate) verification: Option<Verification>,
}

impl Resource {
    /// Takes what this resource leaves out from the config before: Ignition merges
    /// structures member by member (config/merge/merge.go). Programs in Go write an
    /// empty `verification` where they give no content.
    pub(crate) fn over(self, earlier: Option<Self>) -> Self {
        let Some(earlier) = earlier else {
            return self;
        };
        let hash = |of: Option<Verification>| of.and_then(|verification| verification.hash);
        let hash = hash(self.verification).or(hash(earlier.verification));
        Self {
            source: self.source.or(earlier.source),
            compression: self.compression.or(earlier.compression),
            verification: hash.map(|hash| Verification { hash: Some(hash) }),
        }
    }
}

#[derive(Clone, Deserialize)]
pub(crate) struct Verification {
    pub(crate) hash: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Systemd {
    pub(crate) units: Option<Vec<Value>>,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct Unit {
    pub(crate) name: String,
    pub(crate) mask: Option<bool>,
    pub(crate) contents: Option<String>,
    pub(crate) dropins: Option<Vec<Dropin>>,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Dropin {
    pub(crate) name: String,
    pub(crate) contents: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Passwd {
    pub(crate) users: Option<Vec<Named>>,
    pub(crate) groups: Option<Vec<Named>>,
}

#[derive(Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
}
