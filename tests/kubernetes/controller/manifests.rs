//! The manifests, as `kubectl` renders them.

use std::fs;
use std::process::Command;

use landfall_kubernetes_tests::manifests;

/// kubectl applies only the manifests that the kustomization lists, so the list must be
/// complete.
#[test]
fn every_manifest_is_in_the_base() {
    let base = manifests().join("base");
    let list = fs::read_to_string(base.join("kustomization.yaml")).unwrap();
    for entry in fs::read_dir(base).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            name == "kustomization.yaml" || list.contains(&format!("- {name}\n")),
            "{name}"
        );
    }
}

/// Changes what an operator changes in `site`: the namespace, the image, the address,
/// and whether the controller serves the hosts of one namespace or of all.
#[test]
fn a_site_sets_its_values_in_one_file() {
    let work = tempfile::tempdir().unwrap();
    let copied = Command::new("cp")
        .args(["-r", "-t"])
        .arg(work.path())
        .arg(manifests())
        .status();
    assert!(copied.unwrap().success());
    let site = work.path().join("manifests/site");
    let file = site.join("kustomization.yaml");
    let original = fs::read_to_string(&file).unwrap();
    for hosts in ["one-namespace", "base"] {
        let changed = original
            .replace("baremetal-operator-system", "metal")
            .replace("registry.example/", "registry.invalid/")
            .replace("192.0.2.1:", "198.51.100.7:")
            .replace("- ../one-namespace", &format!("- ../{hosts}"));
        fs::write(&file, changed).unwrap();
        let kubectl = landfall_kubernetes_tests::program("kubectl").unwrap();
        let rendered = Command::new(kubectl).arg("kustomize").arg(&site).output();
        let rendered = rendered.unwrap();
        let error = String::from_utf8_lossy(&rendered.stderr);
        assert!(rendered.status.success(), "{error}");
        let text = String::from_utf8(rendered.stdout).unwrap();
        for expected in [
            "- --public-url=$(PUBLIC_URL)\n",
            "- name: PUBLIC_URL\n          value: http://198.51.100.7:8084\n",
            "image: registry.invalid/landfall/image-service:",
            "namespace: metal\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("baremetal-operator-system"), "{text}");
        assert_eq!(text.contains("kind: ClusterRole\n"), hosts == "base");
    }
}
