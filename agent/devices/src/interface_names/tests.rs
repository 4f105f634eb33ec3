//! Compares the names with those of a real udev, for captured machines and every
//! scheme.

mod made_by_hand;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use landfall_sys::sys_tree::plant;
use serde_json::Value;

use super::*;

fn test_data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("test_data/interface_names")
        .join(name)
}

/// The names that udev gave, by captured machine.
fn expected() -> BTreeMap<String, Value> {
    serde_json::from_str(&fs::read_to_string(test_data("udev.json")).unwrap()).unwrap()
}

fn on_machine(name: &str, test: impl FnOnce(&SystemPath)) {
    let tree = test_data(&format!("sys_trees/{name}.tree"));
    let root = plant(&fs::read_to_string(tree).unwrap());
    test(root.path());
}

fn by_kernel_name(root: &SystemPath, policy: &NamingPolicy) -> BTreeMap<String, InterfaceName> {
    names(root, policy)
        .into_iter()
        .map(|found| (found.kernel_name.clone(), found))
        .collect()
}

#[test]
fn names_are_those_of_udev_by_every_scheme() {
    let mut judged = 0;
    for (machine, expected) in expected() {
        on_machine(&machine, |root| {
            for (interface, expected) in expected["interfaces"].as_object().unwrap() {
                for (scheme, name) in expected["by_scheme"].as_object().unwrap() {
                    let policy = NamingPolicy {
                        scheme: Scheme::by_name(scheme).unwrap(),
                        ..NamingPolicy::default()
                    };
                    let found = by_kernel_name(root, &policy);
                    let found = found.get(interface).map_or(interface, |found| &found.name);
                    assert_eq!(name, found, "{machine} {interface} {scheme}");
                    judged += 1;
                }
            }
        });
    }
    assert!(judged > 300, "{judged} names");
}

#[test]
fn candidates_are_those_of_net_id() {
    for (machine, expected) in expected() {
        on_machine(&machine, |root| {
            for (interface, expected) in expected["interfaces"].as_object().unwrap() {
                let directory = root.join("sys/class/net").join(interface);
                for change in expected["scheme_changes"].as_array().unwrap() {
                    let from = change["from"].as_str().unwrap();
                    let scheme = Scheme::by_name(from).unwrap();
                    let found = candidates(root, &directory, &scheme);
                    for (property, found) in [
                        ("mac", found.mac),
                        ("onboard", found.onboard),
                        ("slot", found.slot),
                        ("path", found.path),
                    ] {
                        assert_eq!(
                            change[property].as_str(),
                            found.as_deref(),
                            "{machine} {interface} {from} {property}"
                        );
                    }
                }
            }
        });
    }
}

#[test]
fn a_nic_alone_gets_the_name_that_it_has_among_others() {
    for (machine, _) in expected() {
        on_machine(&machine, |root| {
            let policy = NamingPolicy::default();
            for found in names(root, &policy) {
                let alone = name_of(root, &found.kernel_name, MacAddr([2; 6]), &policy);
                assert_eq!(alone.as_ref(), Some(&found), "{machine}");
            }
        });
    }
}

#[test]
fn the_kernels_arguments_decide() {
    for (machine, expected) in expected() {
        let line = CommandLine::parse(expected["cmdline"].as_str().unwrap());
        let (policy, warnings) = NamingPolicy::from_command_line(&line);
        assert_eq!(warnings, [""; 0]);
        on_machine(&machine, |root| {
            let found = by_kernel_name(root, &policy);
            for (interface, expected) in expected["interfaces"].as_object().unwrap() {
                let name = found.get(interface).map_or(interface, |found| &found.name);
                assert_eq!(&expected["expected_name"], name, "{machine} {interface}");
            }
        });
    }
}

#[test]
fn arguments_are_read_as_udev_reads_them() {
    for (line, keeps, scheme, warned) in [
        ("", false, scheme::DEFAULT, 0),
        ("net.ifnames=0", true, scheme::DEFAULT, 0),
        ("net.ifnames=off", true, scheme::DEFAULT, 0),
        ("net.ifnames=0 net.ifnames=1", false, scheme::DEFAULT, 0),
        ("net.naming_scheme=v257", false, "v257", 0),
        ("net.naming-scheme=rhel-9.4", false, "rhel-9.4", 0),
        ("net.naming_scheme=v1", false, scheme::DEFAULT, 1),
    ] {
        let (policy, warnings) = NamingPolicy::from_command_line(&CommandLine::parse(line));
        assert_eq!(policy.keep_kernel_names, keeps, "{line}");
        assert_eq!(Some(policy.scheme), Scheme::by_name(scheme), "{line}");
        assert_eq!(warnings.len(), warned, "{line}");
    }
}
