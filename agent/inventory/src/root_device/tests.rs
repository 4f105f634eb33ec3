//! Tests every rule of the choice with the tables in test_data/root_device.

use std::fs;
use std::path::Path;

use landfall_devices::boot_medium::BootMedium;
use landfall_devices::disk_sets::Membership;
use landfall_network_plan::{Document, EmbeddedHost, Metal3Hints};
use serde_json::Value;

use super::*;
use crate::report_types::{DiskTraits, PartitionNode};
use crate::sys_tree::test_data;

/// Builds a disk from a table. The fields are those of the inventory, and
/// `serials`, `wwns`, `by_paths`, `gib`, `read_only`, `virtual_media`,
/// `boot_medium` (its label) and `partitions` (their device nodes).
fn disk(fields: &Value) -> Disk {
    let text = |name: &str| fields[name].as_str().map(str::to_owned);
    let list = |name: &str, single: &str| match &fields[name] {
        Value::Array(items) => items
            .iter()
            .map(|i| i.as_str().unwrap().to_owned())
            .collect(),
        _ => text(single).into_iter().collect(),
    };
    let flag = |name: &str| fields[name].as_bool().unwrap_or_default();
    Disk {
        name: text("name").unwrap(),
        model: text("model"),
        size: (fields["gib"].as_f64().unwrap_or(8.0) * GIB) as u64,
        rotational: flag("rotational"),
        wwn: text("wwn"),
        serial: text("serial"),
        vendor: text("vendor"),
        wwn_with_extension: text("wwn_with_extension"),
        wwn_vendor_extension: text("wwn_vendor_extension"),
        hctl: text("hctl"),
        by_path: text("by_path"),
        logical_sectors: 512,
        physical_sectors: 512,
        tran: text("tran"),
        traits: DiskTraits {
            identity: None,
            serials: list("serials", "serial"),
            wwns: list("wwns", "wwn"),
            by_paths: list("by_paths", "by_path"),
            read_only: flag("read_only"),
            virtual_media: flag("virtual_media"),
            boot_medium: text("boot_medium").map(BootMedium::Labelled),
            other_paths: Vec::new(),
            partitions: partitions(fields),
        },
    }
}

/// The partition nodes of a test disk, from the field `partitions` of its row:
/// `/dev/sda1` and so on.
fn partitions(fields: &Value) -> Vec<PartitionNode> {
    let names = fields["partitions"].as_array().into_iter().flatten();
    let partition = |(number, name): (u32, &Value)| PartitionNode {
        name: name.as_str().unwrap().to_owned(),
        number,
        size: GIB as u64,
    };
    (1..).zip(names).map(partition).collect()
}

/// The arrays and volumes to which a disk of a table belongs: `array` is the name
/// that mdadm shows; `volume` is the name if the disk is itself an array; `unread`
/// means that the membership cannot be read.
fn sets(disks: &[Value], name: &str) -> DiskSets {
    let fields = disks.iter().find(|disk| disk["name"] == name).unwrap();
    let array = fields["array"].as_str().map(|name| Membership::Array {
        name: name.to_owned(),
        volume: name.split_once(':').map(|(_, volume)| volume.to_owned()),
    });
    DiskSets {
        member_of: array.into_iter().collect(),
        volume: fields["volume"].as_str().map(str::to_owned),
        unread: fields["unread"].as_bool().unwrap_or_default(),
    }
}

/// The chosen disk, such as `/dev/sda`, or the error that Ironic gets.
fn outcome(node: &Value, disks: &[Disk]) -> String {
    outcome_with(node, &Embedded::default(), disks, &|_| DiskSets::default())
}

fn outcome_with(
    node: &Value,
    embedded: &Embedded,
    disks: &[Disk],
    sets: &dyn Fn(&Disk) -> DiskSets,
) -> String {
    match choose_for_node(Some(node), embedded, disks, sets) {
        Ok(choice) => choice.disk.name.clone(),
        Err(failure) => format!("{}: {failure}", failure.class.name()),
    }
}

/// A machine whose host in the ramdisk has these root device hints.
fn embedded(hints: &Value) -> Embedded {
    Embedded {
        host: Some(EmbeddedHost {
            host_name: None,
            macs: Vec::new(),
            nics: std::collections::BTreeMap::new(),
            root_device_hints: Metal3Hints::from_json(hints).unwrap(),
            document: Document::None,
        }),
        ..Embedded::default()
    }
}

/// Runs all cases of a table. A case has `hints` or a whole `node`, optionally the
/// `embedded` hints of the ramdisk, and `expect`: a disk, or the parts that the error
/// must contain. If the case has no disks, it uses those of the table.
fn run_table(path: &Path) {
    let table: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let name = path.display();
    let cases = table["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let fields = case.get("disks").unwrap_or(&table["disks"]);
        let fields = fields.as_array().unwrap();
        let disks: Vec<Disk> = fields.iter().map(disk).collect();
        let node = case.get("node").cloned().unwrap_or_else(|| {
            serde_json::json!({"properties": {"root_device": case["hints"]}, "instance_info": {}})
        });
        let sets = |disk: &Disk| sets(fields, &disk.name);
        let found = outcome_with(&node, &embedded(&case["embedded"]), &disks, &sets);
        match &case["expect"] {
            Value::String(expected) => assert_eq!(&found, expected, "{name}: {case}"),
            Value::Array(parts) => {
                for part in parts {
                    let part = part.as_str().unwrap();
                    assert!(
                        found.contains(part),
                        "{name}: {case}\nexpected {part}\nfound {found}"
                    );
                }
            }
            other => panic!("{name}: expect is {other}"),
        }
    }
}

#[test]
fn every_table_holds() {
    let mut tables = 0;
    for entry in fs::read_dir(test_data("root_device")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            run_table(&path);
            tables += 1;
        }
    }
    assert!(tables >= 11, "only {tables} tables found");
}

#[test]
fn before_the_node_is_known_the_default_rule_holds() {
    let disks = [
        disk(&serde_json::json!({"name": "/dev/sda", "gib": 3})),
        disk(&serde_json::json!({"name": "/dev/sdb", "gib": 30})),
    ];
    assert_eq!(
        choose_for_node(None, &Embedded::default(), &disks, &|_| DiskSets::default())
            .unwrap()
            .disk
            .name,
        "/dev/sdb"
    );
}

/// The screen shows why each other disk was not chosen.
#[test]
fn every_other_disk_has_a_reason() {
    let disks = [
        disk(&serde_json::json!({"name": "/dev/sda", "gib": 3})),
        disk(&serde_json::json!({"name": "/dev/sdb", "gib": 8, "serial": "B"})),
        disk(&serde_json::json!({"name": "/dev/sdc", "gib": 8, "serial": "B"})),
        disk(&serde_json::json!({"name": "/dev/sdd", "gib": 30.5})),
        disk(&serde_json::json!({"name": "/dev/sde", "gib": 5})),
    ];
    let sets = |disk: &Disk| DiskSets {
        member_of: { (disk.name == "/dev/sde").then(|| Membership::VolumeGroup("data".into())) }
            .into_iter()
            .collect(),
        ..DiskSets::default()
    };
    let reasons = |node: &Value| {
        let choice = choose_for_node(Some(node), &Embedded::default(), &disks, &sets).unwrap();
        let rejected = choice.rejected.iter();
        let words = rejected.map(|disk| format!("{}: {}", disk.path, disk.why));
        (choice.disk.name.clone(), words.collect::<Vec<_>>())
    };
    let small =
        "/dev/sda: 3.00 GiB is below the 4 GiB that a root disk needs without root device hints";
    let member = "/dev/sde: a member of the LVM volume group data, so only a hint that names this disk can choose it";
    let (chosen, others) = reasons(&Value::Null);
    assert_eq!(chosen, "/dev/sdb");
    assert_eq!(
        others,
        [
            small,
            "/dev/sdc: 8.0 GiB, as much as /dev/sdb, whose name comes first",
            "/dev/sdd: 30.5 GiB is more than the 8.0 GiB of /dev/sdb",
            member,
        ]
    );
    let hints = serde_json::json!({"properties": {"root_device": {"serial": "s== B"}}});
    let (chosen, others) = reasons(&hints);
    assert_eq!(chosen, "/dev/sdb");
    let later = "not compared, because /dev/sdb matches and comes first";
    let unknown = r#"/dev/sda: serial is not known, wanted "s== B""#;
    assert_eq!(others[0], unknown);
    for (other, name) in others[1..].iter().zip(["/dev/sdc", "/dev/sdd", "/dev/sde"]) {
        assert_eq!(other, &format!("{name}: {later}"));
    }
}

#[test]
fn a_refusal_is_no_longer_than_people_read() {
    let long = "x".repeat(3000);
    let disks: Vec<Disk> = (0..200)
        .map(|number| {
            disk(&serde_json::json!({"name": format!("/dev/disk{number}"), "model": long}))
        })
        .collect();
    let node =
        serde_json::json!({"properties": {"root_device": {"model": "y"}}, "instance_info": {}});
    let found = outcome(&node, &disks);
    assert!(found.len() < LOSSES_LIMIT + 1000, "{} bytes", found.len());
    assert!(found.contains("/dev/disk0: model is"), "{found}");
    assert!(found.contains("; and "), "{found}");

    let few: Vec<Disk> = (0..30)
        .map(|number| disk(&serde_json::json!({"name": format!("/dev/disk{number}")})))
        .collect();
    let found = outcome(&node, &few);
    assert_eq!(found.matches("model is not known").count(), 30);
}

/// The limits are in bytes. A character may have four.
#[test]
fn reasons_are_cut_at_characters_and_keep_their_limits() {
    let uncut = "\u{1f4bd}".repeat(LOSS_LIMIT / 4);
    assert_eq!(list(std::slice::from_ref(&uncut)), uncut);
    let odd = format!("a{uncut}");
    let cut = list(std::slice::from_ref(&odd));
    assert!(odd.starts_with(cut.strip_suffix("...").unwrap()), "{cut}");
    let many = vec!["\u{1f4bd}".repeat(LOSS_LIMIT); 1000];
    let all = list(&many);
    assert!(all.ends_with(" more"), "{all}");
    assert!(all.len() <= LOSSES_LIMIT + 20, "{} bytes", all.len());
}
