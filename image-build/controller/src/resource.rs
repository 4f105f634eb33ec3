//! `PreprovisioningImage` of metal3.io/v1alpha1, as the API server sends it.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;

use crate::host::{Format, HostKey};

/// The finalizer of the controllers that build images. image-customization-controller
/// uses the same one, so each controller can finish work that the other has begun.
pub const FINALIZER: &str = "preprovisioningimage.metal3.io";
/// A resource with this label belongs to assisted-service, which has a controller of
/// its own for it.
pub(crate) const ASSISTED_SERVICE: &str = "infraenvs.agent-install.openshift.io";

/// The maximum length of a name in Kubernetes, in characters.
const MAX_NAME: usize = 253;

/// The resource. `spec` and `status` stay JSON and get no types: one resource whose
/// field has an unexpected type would otherwise make the whole list unreadable.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PreprovisioningImage {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Value,
    #[serde(default)]
    pub status: Value,
}

impl Resource for PreprovisioningImage {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "PreprovisioningImage".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "metal3.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1alpha1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "preprovisioningimages".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl PreprovisioningImage {
    pub(crate) fn key(&self) -> HostKey {
        HostKey::of(&self.metadata)
    }

    pub(crate) fn is_being_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn finalizers(&self) -> &[String] {
        self.metadata.finalizers.as_deref().unwrap_or_default()
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        self.finalizers().iter().any(|name| name == FINALIZER)
    }

    pub(crate) fn is_assisted_services(&self) -> bool {
        let labels = self.metadata.labels.as_ref();
        labels.is_some_and(|labels| labels.contains_key(ASSISTED_SERVICE))
    }

    pub(crate) fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    pub(crate) fn resource_version(&self) -> &str {
        self.metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The requested architecture; empty if there is none.
    pub(crate) fn architecture(&self) -> &str {
        text(&self.spec, "architecture")
    }

    /// The name of the Secret with the network data; empty if there is none.
    pub(crate) fn network_data_name(&self) -> &str {
        text(&self.spec, "networkDataName")
    }

    /// The first format of `acceptFormats` that is in `possible`. As in metal3, an
    /// empty `acceptFormats` accepts no format.
    pub(crate) fn choose_format(&self, possible: &[Format]) -> Option<Format> {
        let accepted = self.spec.get("acceptFormats")?.as_array()?;
        accepted
            .iter()
            .filter_map(|name| Format::of_name(name.as_str()?))
            .find(|format| possible.contains(format))
    }
}

/// The text of a field; empty if the field is absent or has another type.
pub(crate) fn text<'v>(object: &'v Value, key: &str) -> &'v str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether this is a DNS subdomain name, which Kubernetes requires for the name of a
/// Secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        !part.is_empty()
            && part.bytes().all(|c| inner(c) || c == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= MAX_NAME && name.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_accepted_format_that_is_possible() {
        use Format::{Initrd, Iso};
        for (accepted, possible, expected) in [
            (json!(["iso", "initrd"]), &[Iso, Initrd][..], Some(Iso)),
            (json!(["initrd", "iso"]), &[Iso, Initrd], Some(Initrd)),
            (json!(["iso", "initrd"]), &[Initrd], Some(Initrd)),
            (json!(["qcow2", 7, "iso"]), &[Iso], Some(Iso)),
            (json!(["ISO"]), &[Iso], None),
            (json!([]), &[Iso], None),
            (json!("iso"), &[Iso], None),
            (json!(null), &[Iso], None),
        ] {
            let resource = PreprovisioningImage {
                spec: json!({"acceptFormats": accepted}),
                ..PreprovisioningImage::default()
            };
            assert_eq!(resource.choose_format(possible), expected, "{accepted}");
        }
    }

    #[test]
    fn a_field_of_another_type_does_not_make_the_list_unreadable() {
        let text = json!({
            "apiVersion": "metal3.io/v1alpha1",
            "kind": "PreprovisioningImage",
            "metadata": {"name": "host", "namespace": "metal3"},
            "spec": {"architecture": 7, "networkDataName": ["a"], "acceptFormats": {"iso": true}},
            "status": "ready",
        });
        let resource: PreprovisioningImage = serde_json::from_value(text).unwrap();
        assert_eq!(resource.architecture(), "");
        assert_eq!(resource.network_data_name(), "");
        assert_eq!(resource.choose_format(&[Format::Iso]), None);
        assert_eq!(resource.key().to_string(), "metal3/host");
    }

    #[test]
    fn names_that_a_secret_can_have() {
        for name in [
            "a",
            "host-7",
            "node7.lab.example-network-config-secret",
            "0",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in [
            "", ".", "..", "../host", "a/b", "a%2Fb", "a?b", "a#b", "A", "a_b", "-a", "a-", "a..b",
            "a b", "a\n", "\u{e4}", &long,
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
