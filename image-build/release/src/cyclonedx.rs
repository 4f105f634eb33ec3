//! A bill of materials (SBOM) in the format CycloneDX 1.6, as JSON.
//!
//! This module has only the parts of CycloneDX that a release needs. There is no serial
//! number: it is optional, and a random one would make each run differ.

use serde::Serialize;

use crate::crate_list::Crate;
use crate::debian_package::DebianPackage;
use crate::package_url;
use crate::timestamp;

const SCHEMA: &str = "http://cyclonedx.org/schema/bom-1.6.schema.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bom {
    #[serde(rename = "$schema")]
    schema: &'static str,
    bom_format: &'static str,
    spec_version: &'static str,
    version: u32,
    metadata: Metadata,
    pub components: Vec<Component>,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Metadata {
    timestamp: String,
    tools: Tools,
    component: Component,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Tools {
    components: Vec<Component>,
}

/// What a component is. The names are those of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Application,
    Library,
    OperatingSystem,
    DeviceDriver,
    Firmware,
    File,
    Data,
}

/// A component of the bill. The bill lists only one component for each reference, so
/// different components must have different references.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Component {
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(rename = "bom-ref")]
    pub reference: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `excluded` for what is used only while a program is built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hashes: Vec<Hash>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub licenses: Vec<License>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purl: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<Property>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hash {
    alg: &'static str,
    content: String,
}

/// An SPDX expression, or the words of a licence that SPDX does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum License {
    Expression { expression: String },
    Named { license: NamedLicense },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedLicense {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Property {
    name: String,
    value: String,
}

/// What a component is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    #[serde(rename = "ref")]
    pub reference: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
}

impl Bom {
    /// A bill without components, for the product `name`. The product and the tool
    /// `landfall-image` have the same version. `epoch` is the time of the bill in seconds
    /// since 1970.
    #[must_use]
    pub fn new(name: &str, version: &str, license: &str, epoch: u32) -> Self {
        let versioned = |kind, reference: &str, name: &str| Component {
            version: Some(version.to_owned()),
            ..Component::new(kind, reference, name)
        };
        let mut product = versioned(Kind::Application, "release", name);
        product.licenses = vec![License::expression(license)];
        let tool = versioned(Kind::Application, "tool", "landfall-image");
        Self {
            schema: SCHEMA,
            bom_format: "CycloneDX",
            spec_version: "1.6",
            version: 1,
            metadata: Metadata {
                timestamp: timestamp::rfc3339(epoch),
                tools: Tools {
                    components: vec![tool],
                },
                component: product,
            },
            components: Vec::new(),
            dependencies: Vec::new(),
        }
    }

    /// Adds a component, unless one with this reference is there.
    pub fn add(&mut self, component: Component) {
        let is_there = |other: &Component| other.reference == component.reference;
        if !self.components.iter().any(is_there) {
            self.components.push(component);
        }
    }

    /// Records what a component is made of. The caller must also add these components to
    /// the bill: the specification forbids references to components that the bill does
    /// not contain.
    pub fn depends(&mut self, reference: &str, on: impl IntoIterator<Item = String>) {
        let mut depends_on: Vec<String> = on.into_iter().collect();
        depends_on.sort();
        depends_on.dedup();
        self.dependencies.push(Dependency {
            reference: reference.to_owned(),
            depends_on,
        });
    }

    /// The bill as JSON, with everything sorted.
    pub fn to_json(mut self) -> Result<Vec<u8>, serde_json::Error> {
        sort(&mut self.components);
        self.dependencies.sort();
        self.dependencies.dedup();
        let mut json = serde_json::to_vec_pretty(&self)?;
        json.push(b'\n');
        Ok(json)
    }
}

fn sort(components: &mut [Component]) {
    components.sort_by(|a, b| (a.kind, &a.reference).cmp(&(b.kind, &b.reference)));
    for component in components {
        sort(&mut component.components);
    }
}

impl Component {
    #[must_use]
    pub fn new(kind: Kind, reference: &str, name: &str) -> Self {
        Self {
            kind,
            reference: reference.to_owned(),
            name: name.to_owned(),
            version: None,
            scope: None,
            hashes: Vec::new(),
            licenses: Vec::new(),
            purl: None,
            properties: Vec::new(),
            components: Vec::new(),
        }
    }

    /// A file of the release.
    #[must_use]
    pub fn file(name: &str, sha256: &str) -> Self {
        Self::new(Kind::File, &format!("file:{name}"), name).with_sha256(sha256)
    }

    #[must_use]
    pub fn of_crate(one: &Crate) -> Self {
        let purl = package_url::of_crate(&one.name, &one.version);
        let mut component = Self::new(Kind::Library, &purl, &one.name);
        component.version = Some(one.version.clone());
        component.scope = one.is_proc_macro.then_some("excluded");
        let license = one.license.iter();
        component.licenses = license.map(|text| License::expression(text)).collect();
        if let Some(sha256) = &one.sha256 {
            component = component.with_sha256(sha256);
            // Crates of this workspace are in no registry.
            component.purl = Some(purl);
        }
        component
    }

    /// A binary package of Debian.
    #[must_use]
    pub fn of_debian_package(kind: Kind, name: &str, version: &str, architecture: &str) -> Self {
        let purl = package_url::of_debian_package(name, version, architecture);
        let mut component = Self::new(kind, &purl, name);
        component.version = Some(version.to_owned());
        component.purl = Some(purl);
        component
    }

    /// Like [`Component::of_debian_package`], with the digest of the package file.
    #[must_use]
    pub fn of_debian_file(kind: Kind, package: &DebianPackage) -> Self {
        let DebianPackage {
            name,
            version,
            architecture,
            ..
        } = package;
        Self::of_debian_package(kind, name, version, architecture).with_sha256(&package.sha256)
    }

    #[must_use]
    pub fn with_sha256(mut self, sha256: &str) -> Self {
        self.hashes.push(Hash {
            alg: "SHA-256",
            content: sha256.to_owned(),
        });
        self
    }

    #[must_use]
    pub fn with_property(mut self, name: &str, value: &str) -> Self {
        self.properties.push(Property {
            name: format!("landfall:{name}"),
            value: value.to_owned(),
        });
        self
    }
}

impl License {
    /// An SPDX expression. Old crates write `MIT/Apache-2.0`, which becomes
    /// `MIT OR Apache-2.0`.
    #[must_use]
    pub fn expression(text: &str) -> Self {
        Self::Expression {
            expression: text.replace('/', " OR "),
        }
    }

    /// A licence in the words of a kernel module, such as `Dual BSD/GPL`.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let name = name.to_owned();
        Self::Named {
            license: NamedLicense { name },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn one(name: &str, sha256: Option<&str>) -> Crate {
        Crate {
            name: name.to_owned(),
            version: "1.0".to_owned(),
            license: Some("MIT/Apache-2.0".to_owned()),
            sha256: sha256.map(str::to_owned),
            is_proc_macro: name == "macro",
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn the_bill_is_sorted_and_has_each_component_once() {
        let mut bom = Bom::new("landfall", "0.1.0", "Apache-2.0", 0);
        for name in ["b", "a", "macro", "a"] {
            bom.add(Component::of_crate(&one(name, Some("00"))));
        }
        bom.add(Component::of_crate(&one("own", None)));
        bom.add(Component::file("z.iso", "01"));
        bom.depends(
            "file:z.iso",
            ["pkg:cargo/b@1.0".into(), "pkg:cargo/a@1.0".into()],
        );
        let bill: Value = serde_json::from_slice(&bom.to_json().unwrap()).unwrap();
        assert_eq!(bill["specVersion"], "1.6");
        assert_eq!(bill["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
        assert!(bill.get("serialNumber").is_none());
        let names: Vec<&str> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|component| component["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["a", "b", "macro", "own", "z.iso"]);
        assert_eq!(
            bill["components"][2],
            json!({
                "type": "library",
                "bom-ref": "pkg:cargo/macro@1.0",
                "purl": "pkg:cargo/macro@1.0",
                "name": "macro",
                "version": "1.0",
                "scope": "excluded",
                "hashes": [{"alg": "SHA-256", "content": "00"}],
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
            })
        );
        assert!(bill["components"][3].get("purl").is_none());
        assert_eq!(
            bill["dependencies"],
            json!([{"ref": "file:z.iso", "dependsOn": ["pkg:cargo/a@1.0", "pkg:cargo/b@1.0"]}])
        );
    }
}
