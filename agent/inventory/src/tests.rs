//! Compares the whole inventory of captured machines with the output of udev,
//! lsblk and Ironic's agent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use landfall_network::NetworkState;
use landfall_network::lab;
use landfall_network::state::{AddressOrigin, NicState};
use landfall_sys::skip::skip;
use landfall_sys::system_path::SystemPath;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::collect::{CollectOptions, collect};
use super::collectors;
use super::disk_arrival::DiskArrival;
use super::inspection::{self, Circumstances};
use super::report_types::{Disk, InspectionBody, Inventory};
use super::sys_tree::{captured, plant, test_data};
use super::udev_properties::UdevProperties;

fn vectors() -> BTreeMap<String, Vec<Value>> {
    let text = fs::read_to_string(test_data("udev_and_lsblk.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// One field of a disk: its name, the expected value and the found value.
type Field = (String, Value, Value);

fn udev_fields(expected: &Value, root: &SystemPath, name: &str) -> Vec<Field> {
    let block = root.join("sys/block").join(name).resolved().unwrap();
    let found = serde_json::to_value(UdevProperties::of(&block, name)).unwrap();
    expected
        .as_object()
        .unwrap()
        .iter()
        .map(|(field, expected)| (field.clone(), expected.clone(), found[field].clone()))
        .collect()
}

fn lsblk_fields(expected: &Value, disk: &Disk) -> Vec<Field> {
    let vendor = expected["vendor"].as_str().map(str::trim_end);
    let expected_of = |field: &str| match field {
        "vendor" => json!(vendor),
        _ => expected[field].clone(),
    };
    [
        ("hctl", json!(disk.hctl)),
        ("tran", json!(disk.tran)),
        ("rotational", json!(disk.rotational)),
        ("size", json!(disk.size)),
        ("physical_sectors", json!(disk.physical_sectors)),
        ("logical_sectors", json!(disk.logical_sectors)),
        ("model", json!(disk.model)),
        ("vendor", json!(disk.vendor)),
        ("serial", json!(disk.serial)),
        ("wwn", json!(disk.wwn)),
        ("read_only", json!(disk.traits.read_only)),
    ]
    .map(|(field, found)| (field.to_owned(), expected_of(field), found))
    .to_vec()
}

/// Compares every disk of the captured trees with the recorded values. `change`
/// selects the lines of a tree that are used. Returns how many fields agree.
fn compare_disks(change: impl Fn(&str) -> bool) -> u32 {
    let (mut agreed, mut differences) = (0, Vec::new());
    for (capture, disks) in vectors() {
        let text = fs::read_to_string(test_data(&format!("sys_trees/{capture}.tree"))).unwrap();
        let kept: Vec<&str> = text.lines().filter(|line| change(line)).collect();
        let root = plant(&kept.join("\n"));
        let reported = super::disks::collect(root.path());
        let expected_names: BTreeSet<String> = disks
            .iter()
            .filter(|disk| disk["lsblk"]["type"] == "disk")
            .map(|disk| format!("/dev/{}", disk["kernel_name"].as_str().unwrap()))
            .collect();
        let names: BTreeSet<String> = reported.iter().map(|disk| disk.name.clone()).collect();
        assert_eq!(names, expected_names, "{capture}");
        for expected in &disks {
            let name = expected["kernel_name"].as_str().unwrap();
            let mut fields = udev_fields(&expected["udev"], root.path(), name);
            let device = format!("/dev/{name}");
            if let Some(disk) = reported.iter().find(|disk| disk.name == device) {
                fields.extend(lsblk_fields(&expected["lsblk"], disk));
            }
            for (field, expected, found) in fields {
                if expected != found {
                    differences.push(format!(
                        "{capture}/{name}/{field}: expected {expected}, found {found}"
                    ));
                }
                agreed += u32::from(expected == found);
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{agreed} fields agree, these do not:\n{}",
        differences.join("\n")
    );
    agreed
}

#[test]
fn disks_agree_with_udev_and_lsblk() {
    assert!(compare_disks(|_| true) > 800);
}

/// Older kernels keep fewer VPD pages, and no pages of unreliable devices. The agent
/// then requests the pages from the disk.
#[test]
fn disks_that_are_asked_agree_as_well() {
    let kept_by_kernel = |line: &str, page: &str| line.contains(&format!("/vpd_pg{page} = "));
    compare_disks(|line| !kept_by_kernel(line, "89"));
    compare_disks(|line| !kept_by_kernel(line, "0"));
    compare_disks(|line| !line.contains("/vpd_pg"));
    // Without IDENTIFY: the kernel's page 0x83 also has the model and the serial
    // number.
    compare_disks(|line| !(kept_by_kernel(line, "89") || line.contains("/ata-identify.hex = ")));
}

/// The captured machines on which Ironic's agent also ran its inspection.
const MACHINES: [&str; 6] = [
    "mixed-bios-3nic-query",
    "nodisk-bios",
    "nvme-ns-uefi",
    "sata-bios",
    "scsi-uefi-2nic",
    "vblk-noserial-bios",
];

fn original_body(machine: &str) -> String {
    let text = fs::read_to_string(test_data(&format!("original_agent/{machine}.json"))).unwrap();
    let (_, body) = text.split_once("\"body\":").unwrap();
    body.trim_end().strip_suffix('}').unwrap().to_owned()
}

fn our_body(machine: &str) -> (Inventory, String) {
    let body = gathered(machine, "default");
    let text = serde_json::to_string(&body).unwrap();
    (body.inventory.unwrap(), text)
}

/// Runs these collectors on a captured machine.
fn gathered(machine: &str, names: &str) -> InspectionBody {
    let circumstances = circumstances(names);
    let (chosen, faults) = collectors::by_names(&circumstances.collectors);
    let root = captured(machine);
    inspection::gather(root.path(), &circumstances, &chosen, faults, None)
}

fn circumstances(names: &str) -> Circumstances {
    Circumstances {
        collectors: names.split(',').map(str::to_owned).collect(),
        disk_arrival: DiskArrival::after(Instant::now(), Duration::ZERO),
        lldp_timeout: Duration::ZERO,
        lldp_in_interfaces: false,
        neighbours: None,
        network: watch::channel(NetworkState::default()).1,
        bootif: Some("01-52-54-00-aa-bb-01".into()),
        hide_bmc_nics: true,
        embedded: landfall_network_plan::Embedded::default(),
        managers: &[("generic_hardware_manager", "1.2")],
        logs: || "H4sI".into(),
    }
}

/// The lease arrives while the agent listens for LLDP; switches send a frame only
/// every 30 s.
#[test]
fn a_lease_that_arrives_during_the_lldp_wait_is_in_the_inventory() {
    if !nix::unistd::Uid::effective().is_root() {
        return skip("listening for LLDP needs root");
    }
    let (sender, network) = watch::channel(NetworkState::default());
    let circumstances = Circumstances {
        lldp_timeout: Duration::from_secs(2),
        network,
        ..circumstances("default,lldp")
    };
    let root = captured("vblk-noserial-bios");
    // Adds what the capture lacks for an Ethernet NIC with a cable.
    let nic = root.directory().join("sys/class/net/eth0");
    fs::write(nic.join("type"), "1\n").unwrap();
    fs::write(nic.join("carrier"), "1\n").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let body = runtime.block_on(async {
        let lease = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            sender.send_replace(with_address("eth0", "192.0.2.7/24"));
        };
        let inspect = inspection::inspect(root.path().clone(), circumstances);
        tokio::join!(inspect, lease).0.unwrap()
    });
    let body: Value = serde_json::from_str(&body).unwrap();
    let nic = &body["inventory"]["interfaces"][0];
    assert_eq!(nic["name"], "eth0");
    assert_eq!(nic["ipv4_address"], "192.0.2.7");
}

fn with_address(nic: &str, address: &str) -> NetworkState {
    let nic = NicState {
        name: nic.to_owned(),
        addresses: vec![lab::address(address, AddressOrigin::Foreign)],
        ..lab::nic(1, false)
    };
    NetworkState {
        nics: vec![nic],
        ..NetworkState::default()
    }
}

/// Removes the fields that cannot be equal here from both objects.
fn without(fields: &[&str], mut objects: [Value; 2]) -> [Value; 2] {
    for object in &mut objects {
        for field in fields {
            assert!(object.as_object_mut().unwrap().remove(*field).is_some());
        }
    }
    objects
}

/// The NICs by MAC address, because Ironic's agent lists them in no fixed
/// order.
fn by_mac(interfaces: &Value) -> BTreeMap<String, Value> {
    let interfaces = interfaces.as_array().unwrap().iter();
    interfaces
        .map(|nic| (nic["mac_address"].as_str().unwrap().to_owned(), nic.clone()))
        .collect()
}

#[test]
fn body_agrees_with_the_original_agent() {
    for machine in MACHINES {
        let original: Value = serde_json::from_str(&original_body(machine)).unwrap();
        let (inventory, body) = our_body(machine);
        let ours: Value = serde_json::from_str(&body).unwrap();

        // A disk has several by-path links, and Ironic's agent reports any one of them.
        let is_a_link = |disk: &Value| {
            let link = disk["by_path"].as_str().unwrap().to_owned();
            inventory
                .disks
                .iter()
                .any(|d| d.traits.by_paths.contains(&link))
        };
        let theirs = original["inventory"]["disks"].as_array().unwrap();
        let disks = ours["inventory"]["disks"].as_array().unwrap();
        assert_eq!(disks.len(), theirs.len(), "{machine}");
        for pair in disks.iter().zip(theirs) {
            assert!(is_a_link(pair.1), "{machine}: {}", pair.1);
            let [ours, theirs] = without(&["by_path"], [pair.0.clone(), pair.1.clone()]);
            assert_eq!(ours, theirs, "{machine}");
        }
        match (ours.get("root_disk"), original.get("root_disk")) {
            (Some(ours), Some(theirs)) => assert_eq!(ours["name"], theirs["name"], "{machine}"),
            (ours, theirs) => assert_eq!(ours, theirs, "{machine}"),
        }

        // These fields differ: names and addresses come from the network in which
        // Ironic's agent ran, the speed comes from drivers, which a captured tree
        // lacks, and an e1000e needs seconds to detect its carrier.
        let nics = by_mac(&ours["inventory"]["interfaces"]);
        let theirs = by_mac(&original["inventory"]["interfaces"]);
        let given = [
            "name",
            "ipv4_address",
            "ipv6_address",
            "speed_mbps",
            "has_carrier",
        ];
        assert_eq!(nics.len(), theirs.len(), "{machine}");
        for pair in nics.values().zip(theirs.values()) {
            let [ours, theirs] = without(&given, [pair.0.clone(), pair.1.clone()]);
            assert_eq!(ours, theirs, "{machine}");
        }

        let [mut ours, mut original] = without(&[], [ours, original]);
        for body in [&mut ours, &mut original] {
            let body = body.as_object_mut().unwrap();
            body.remove("root_disk");
            let inventory = body["inventory"].as_object_mut().unwrap();
            inventory.remove("disks");
            inventory.remove("interfaces");
            // Two builds of a kernel differ by a page or so of memory.
            let total = inventory["memory"]["total"].as_u64().unwrap();
            inventory["memory"]["total"] = json!(total >> 20);
        }
        assert_eq!(ours, original, "{machine}");
    }
}

/// The names of all fields in the order of the JSON text. Parsing the text would
/// lose that order.
fn field_order(text: &str) -> Vec<&str> {
    let fields = text.split('"').collect::<Vec<_>>();
    fields
        .windows(2)
        .filter(|pair| pair[1].trim_start().starts_with(':'))
        .map(|pair| pair[0])
        .collect()
}

#[test]
fn fields_have_the_originals_order() {
    for machine in MACHINES {
        let (_, body) = our_body(machine);
        let original = original_body(machine);
        assert_eq!(field_order(&body), field_order(&original), "{machine}");
    }
}

#[test]
fn collectors_add_their_members() {
    let body = gathered(
        "sata-bios",
        "logs,default,pci-devices,usb-devices,numa-topology,lldp",
    );
    let body = serde_json::to_value(body).unwrap();
    let members: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(
        members,
        [
            "boot_interface",
            "configuration",
            "error",
            "inventory",
            "lldp_raw",
            "logs",
            "numa_topology",
            "pci_devices",
            "root_disk",
            "usb_devices"
        ]
    );
    assert_eq!(body["error"], Value::Null);
}

#[test]
fn a_machine_without_a_host_name_does_not_report_the_kernels_text() {
    for (kernel, reported) in [("(none)", "localhost"), ("node7", "node7")] {
        let root = plant(&format!("proc/sys/kernel/hostname = {kernel}\\n"));
        let addresses = BTreeMap::new();
        let options = CollectOptions {
            addresses: &addresses,
            bootif: None,
            hide_bmc_nics: true,
            service_nic: None,
            ask_drivers: false,
        };
        let (inventory, _) = collect(root.path(), options);
        assert_eq!(inventory.hostname, reported);
    }
}

#[test]
fn unknown_collectors_fail_the_inspection_with_the_inventory_in_it() {
    let body = gathered("nodisk-bios", "default,extra-hardware,x");
    assert!(body.inventory.is_some(), "by which Ironic finds the node");
    let error = body.error.unwrap();
    let mut lines = error.lines();
    assert_eq!(lines.next(), Some("The following errors were encountered:"));
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("* collector extra-hardware ")
    );
    assert!(lines.next().unwrap().starts_with("* collector x "));
}
