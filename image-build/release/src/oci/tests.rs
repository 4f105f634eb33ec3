use serde_json::{Value, json};

use super::*;
use crate::tar_tree::{Naming, Node, TarTree};

fn layer(directory: &std::path::Path, text: &str) -> Layer {
    let mut tree = TarTree::default();
    tree.text("etc/text", text).unwrap();
    let file = directory.join(digest_writer::sha256(text.as_bytes()));
    Layer::write(&tree, &file, 0).unwrap()
}

fn read(tree: &TarTree, path: &str) -> Value {
    let Some(Node::File { content, .. }) = tree.get(path) else {
        panic!("no {path}")
    };
    let mut bytes = Vec::new();
    content.open().unwrap().read_to_end(&mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Asserts for every descriptor in a value that the tree has its blob, with its size and
/// digest.
fn blobs_are_there(tree: &TarTree, value: &Value) {
    let Some(digest) = value["digest"].as_str() else {
        let parts: Vec<&Value> = match value {
            Value::Array(parts) => parts.iter().collect(),
            Value::Object(parts) => parts.values().collect(),
            _ => Vec::new(),
        };
        return parts
            .into_iter()
            .for_each(|part| blobs_are_there(tree, part));
    };
    let path = format!("blobs/{}", digest.replace(':', "/"));
    let Some(Node::File { content, .. }) = tree.get(&path) else {
        panic!("no {path}")
    };
    let mut bytes = Vec::new();
    content.open().unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(value["size"], bytes.len());
    assert_eq!(digest, format!("sha256:{}", digest_writer::sha256(&bytes)));
    if value["mediaType"]
        .as_str()
        .unwrap()
        .ends_with("manifest.v1+json")
    {
        blobs_are_there(tree, &serde_json::from_slice(&bytes).unwrap());
    }
}

#[test]
fn an_image_is_whole() {
    let work = tempfile::tempdir().unwrap();
    let layers = [layer(work.path(), "one"), layer(work.path(), "two")];
    let settings = ImageSettings {
        name: "localhost/x:1".to_owned(),
        entrypoint: vec!["/bin/x".to_owned(), "run".to_owned()],
        environment: vec!["A=b".to_owned()],
        working_directory: Some("/work".to_owned()),
        labels: [("k".to_owned(), "v".to_owned())].into(),
    };
    let image = image(&settings, &layers, 1_700_000_000).unwrap();
    let tree = archive(&[image]).unwrap();
    assert_eq!(
        read(&tree, "oci-layout"),
        json!({"imageLayoutVersion": "1.0.0"})
    );
    let index = read(&tree, "index.json");
    blobs_are_there(&tree, &index);
    assert_eq!(index["schemaVersion"], 2);
    let listed = &index["manifests"][0];
    assert_eq!(
        listed["annotations"],
        json!({"org.opencontainers.image.ref.name": "localhost/x:1"})
    );
    assert_eq!(
        listed["platform"],
        json!({"architecture": "amd64", "os": "linux"})
    );
    let blob = |value: &Value| {
        let digest = value["digest"].as_str().unwrap();
        read(&tree, &format!("blobs/{}", digest.replace(':', "/")))
    };
    let manifest = blob(listed);
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 2);
    assert!(manifest.get("artifactType").is_none());
    let configuration = blob(&manifest["config"]);
    assert_eq!(
        configuration,
        json!({
            "architecture": "amd64",
            "os": "linux",
            "created": "2023-11-14T22:13:20Z",
            "config": {
                "Entrypoint": ["/bin/x", "run"],
                "Env": ["A=b"],
                "WorkingDir": "/work",
                "Labels": {"k": "v"},
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": layers.map(|layer| format!("sha256:{}", layer.diff_id)),
            },
        })
    );
}

#[test]
fn an_artefact_has_the_form_that_ironic_requests() {
    let kernel = Blob::of_bytes(b"kernel".to_vec());
    let digest = kernel.sha256.clone();
    let one = artifact("kernel", "application/vnd.landfall.kernel", "k", kernel, 0).unwrap();
    let ramdisk = Blob::of_bytes(b"ramdisk".to_vec());
    let other = artifact(
        "ramdisk",
        "application/vnd.landfall.ramdisk",
        "r",
        ramdisk,
        0,
    )
    .unwrap();
    let reference = one.sha256.clone();
    let tree = archive(&[one, other]).unwrap();
    let index = read(&tree, "index.json");
    blobs_are_there(&tree, &index);
    let names: Vec<&Value> = index["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["annotations"]["org.opencontainers.image.ref.name"])
        .collect();
    assert_eq!(names, ["kernel", "ramdisk"]);
    let manifest = read(&tree, &format!("blobs/sha256/{reference}"));
    let empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(
        manifest,
        json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": "application/vnd.landfall.kernel",
            "config": {
                "mediaType": "application/vnd.oci.empty.v1+json",
                "digest": format!("sha256:{empty}"),
                "size": 2,
            },
            "layers": [{
                "mediaType": "application/octet-stream",
                "digest": format!("sha256:{digest}"),
                "size": 6,
                "annotations": {"org.opencontainers.image.title": "k"},
            }],
            "annotations": {"org.opencontainers.image.created": "1970-01-01T00:00:00Z"},
        })
    );
}

/// A hash map has a different order in each process, and for each map. So the test
/// needs many labels and several runs to find the fault.
#[test]
fn the_same_input_gives_the_same_bytes() {
    let work = tempfile::tempdir().unwrap();
    let layers = [layer(work.path(), "one")];
    let settings = ImageSettings {
        name: "localhost/x:1".to_owned(),
        labels: (0..50).map(|n| (format!("k{n}"), "v".to_owned())).collect(),
        ..ImageSettings::default()
    };
    let bytes = || {
        let image = image(&settings, &layers, 0).unwrap();
        let mut bytes = Vec::new();
        let tree = archive(&[image]).unwrap();
        tree.write(&mut bytes, Naming::Plain, 0).unwrap();
        bytes
    };
    let first = bytes();
    assert!((0..10).all(|_| bytes() == first));
}
