//! The files that run the image service on a machine or in a cluster.

use anyhow::Result;
use landfall_release::tar_tree::TarTree;

const UNIT: &str = include_str!("../../systemd/landfall-image.service");

macro_rules! manifests {
    ($($path:literal),+ $(,)?) => {
        [$(($path, include_str!(concat!("../../controller/manifests/", $path)))),+]
    };
}

const MANIFESTS: [(&str, &str); 8] = manifests![
    "base/deployment.yaml",
    "base/kustomization.yaml",
    "base/lease-role.yaml",
    "base/role.yaml",
    "base/service-account.yaml",
    "base/service.yaml",
    "one-namespace/kustomization.yaml",
    "site/kustomization.yaml",
];

/// The unit is not enabled: the service needs options that only the site knows.
pub(super) fn add_unit(tree: &mut TarTree) -> Result<()> {
    tree.text("usr/lib/systemd/system/landfall-image.service", UNIT)?;
    Ok(())
}

/// Adds the manifests of the controller below a directory.
pub(super) fn add_manifests(tree: &mut TarTree, directory: &str) -> Result<()> {
    for (path, text) in MANIFESTS {
        tree.text(&format!("{directory}/{path}"), text)?;
    }
    Ok(())
}
