//! The claim of a Secret: a label and an owner.
//!
//! metal3's controllers watch only Secrets with this label. The owner references of a
//! Secret name the resources that use it, and Kubernetes deletes a Secret together with
//! its last owner.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;

use crate::resource::PreprovisioningImage;

pub(crate) const LABEL: &str = "environment.metal3.io";
pub(crate) const LABEL_VALUE: &str = "baremetal";

/// Adds to a Secret the label, and an owner reference that names the resource. Returns
/// whether this has changed the Secret.
///
/// As in metal3, a label with another value stays, because someone has set it on purpose.
/// The owner reference does not set `controller`, because several resources may share a
/// Secret.
pub(crate) fn claim(secret: &mut ObjectMeta, resource: &PreprovisioningImage) -> bool {
    let mut changed = false;
    let labels = secret.labels.get_or_insert_default();
    if !labels.contains_key(LABEL) {
        labels.insert(LABEL.to_owned(), LABEL_VALUE.to_owned());
        changed = true;
    }
    let Some(owner) = resource.owner_ref(&()) else {
        return changed;
    };
    let owners = secret.owner_references.get_or_insert_default();
    match owners.iter_mut().find(|other| is_same(other, &owner)) {
        Some(other) if *other == owner => {}
        Some(other) => {
            *other = owner;
            changed = true;
        }
        None => {
            owners.push(owner);
            changed = true;
        }
    }
    changed
}

/// Whether both refer to a resource of the same group, kind and name. The UIDs may
/// differ: the resource may have been deleted and created again.
fn is_same(one: &OwnerReference, other: &OwnerReference) -> bool {
    let group = |owner: &OwnerReference| {
        let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
        group.to_owned()
    };
    one.kind == other.kind && one.name == other.name && group(one) == group(other)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn resource() -> PreprovisioningImage {
        PreprovisioningImage {
            metadata: ObjectMeta {
                name: Some("host".to_owned()),
                namespace: Some("metal3".to_owned()),
                uid: Some("uid-2".to_owned()),
                ..ObjectMeta::default()
            },
            ..PreprovisioningImage::default()
        }
    }

    fn owner(kind: &str, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "metal3.io/v1alpha1".to_owned(),
            kind: kind.to_owned(),
            name: "host".to_owned(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        }
    }

    fn labelled(value: &str) -> Option<BTreeMap<String, String>> {
        Some([(LABEL.to_owned(), value.to_owned())].into())
    }

    #[test]
    fn label_and_owner_are_added_once() {
        let ours = owner("PreprovisioningImage", "uid-2");
        let host = owner("BareMetalHost", "uid-1");
        let controlling = OwnerReference {
            controller: Some(true),
            ..ours.clone()
        };
        for (labels, owners, expected_label, expected_owners, changed) in [
            (None, vec![], "baremetal", vec![&ours], true),
            (
                labelled("baremetal"),
                vec![ours.clone()],
                "baremetal",
                vec![&ours],
                false,
            ),
            (
                labelled("other"),
                vec![host.clone()],
                "other",
                vec![&host, &ours],
                true,
            ),
            // The owner is a deleted resource of this name.
            (
                labelled("baremetal"),
                vec![owner("PreprovisioningImage", "uid-1")],
                "baremetal",
                vec![&ours],
                true,
            ),
            // The owner reference of a version before 2023, which set `controller`.
            (
                labelled("baremetal"),
                vec![controlling],
                "baremetal",
                vec![&ours],
                true,
            ),
        ] {
            let mut secret = ObjectMeta {
                labels,
                owner_references: Some(owners),
                ..ObjectMeta::default()
            };
            assert_eq!(claim(&mut secret, &resource()), changed);
            assert_eq!(secret.labels.clone().unwrap()[LABEL], expected_label);
            let found: Vec<_> = secret.owner_references.iter().flatten().collect();
            assert_eq!(found, expected_owners);
            assert!(!claim(&mut secret, &resource()), "a second claim");
        }
    }
}
