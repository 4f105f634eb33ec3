//! Tests the controller with a real kube-apiserver and etcd (`make test-controller`).
//!
//! Each test has an API server of its own with the roles of the manifests, except the
//! tests of the manifests themselves. The test of the Deployment needs root, because it
//! mounts the files of a pod.

#![allow(clippy::unwrap_used, reason = "tests")]

mod copies;
mod deletion;
mod deployment;
mod gaps;
mod hostile;
mod life;
mod manifests;
mod many;
mod one_namespace;
mod outage;
mod program;
mod restarts;

use landfall_network_plan::Document;

/// The network that a Secret with [`nmstate`] describes.
fn network(address: &str) -> Document {
    Document::NmState(nmstate(address))
}

/// NMState for a host with this address.
fn nmstate(address: &str) -> String {
    format!(
        "interfaces:\n- name: eno1\n  type: ethernet\n  state: up\n  ipv4:\n    enabled: true\n    \
         address:\n    - ip: {address}\n      prefix-length: 24\n"
    )
}
