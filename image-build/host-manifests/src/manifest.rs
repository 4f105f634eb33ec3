//! Splits files of Kubernetes manifests into resources.

use landfall_network_plan::from_nmstate::InvalidYaml;
use landfall_network_plan::from_nmstate::yaml_documents;
use serde_json::{Map, Value};

use crate::reader::{kind, start};

/// One resource of a file.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// Name of the resource in messages: `hosts.yaml: BareMetalHost metal3/node-1`.
    pub(crate) title: String,
    pub(crate) kind: String,
    /// `None` if the file leaves the choice to `kubectl apply -n`.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) fields: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error(transparent)]
    Yaml(#[from] InvalidYaml),
    #[error("{place}: expected a resource (keys and values), found {found}")]
    NoMapping { place: String, found: &'static str },
    #[error("{place}: {key}: expected text, found {found}")]
    NoText {
        place: String,
        key: &'static str,
        found: &'static str,
    },
}

/// The resources of a file in their order, and an error for each part of the file that is
/// not a resource.
pub(crate) fn manifests(title: &str, text: &str) -> (Vec<Manifest>, Vec<ManifestError>) {
    let documents = match yaml_documents(text) {
        Ok(documents) => documents,
        Err(error) => return (Vec::new(), vec![error.into()]),
    };
    let mut found = (Vec::new(), Vec::new());
    for (index, document) in documents.into_iter().enumerate() {
        let place = format!("document {}", index + 1);
        add(title, &place, document, &mut found);
    }
    found
}

/// Adds a resource, or the items of a list: `kind: List`, or a plain list. The recursion
/// is limited, because the depth of the YAML has a limit.
fn add(title: &str, place: &str, value: Value, found: &mut (Vec<Manifest>, Vec<ManifestError>)) {
    let (manifests, faults) = found;
    let mut fields = match value {
        Value::Array(items) => return add_all(title, place, items, found),
        Value::Object(fields) => fields,
        other => {
            let (place, found) = (place.to_owned(), kind(&other));
            return faults.push(ManifestError::NoMapping { place, found });
        }
    };
    let is_list =
        { fields.get("kind").and_then(Value::as_str) }.is_some_and(|kind| kind.ends_with("List"));
    if is_list && let Some(Value::Array(items)) = fields.get_mut("items") {
        let items = std::mem::take(items);
        return add_all(title, place, items, found);
    }
    match Manifest::of(title, place, fields) {
        Ok(manifest) => manifests.push(manifest),
        Err(fault) => faults.push(fault),
    }
}

fn add_all(
    title: &str,
    place: &str,
    items: Vec<Value>,
    found: &mut (Vec<Manifest>, Vec<ManifestError>),
) {
    for (index, item) in items.into_iter().enumerate() {
        add(title, &format!("{place}: items[{index}]"), item, found);
    }
}

impl Manifest {
    fn of(title: &str, place: &str, fields: Map<String, Value>) -> Result<Self, ManifestError> {
        let metadata = fields.get("metadata");
        let text = |key, value: Option<&Value>| match value {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
            other => Err(ManifestError::NoText {
                place: place.to_owned(),
                key,
                found: other.map_or("nothing", kind),
            }),
        };
        let of_metadata = |key: &str| metadata.and_then(|metadata| metadata.get(key));
        let kind = text("kind", fields.get("kind"))?;
        let name = text("metadata.name", of_metadata("name"))?;
        let namespace = match of_metadata("namespace") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.is_empty() => None,
            value => Some(text("metadata.namespace", value)?),
        };
        let shown = match &namespace {
            Some(namespace) => format!("{}/{}", start(namespace), start(&name)),
            None => start(&name),
        };
        Ok(Self {
            title: format!(
                "{title}: {}",
                format!("{} {shown}", start(&kind)).escape_debug()
            ),
            kind,
            namespace,
            name,
            fields,
        })
    }
}
