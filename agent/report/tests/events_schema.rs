//! Events and the status have the form of docs/events.schema.json, and the schema has no
//! other fields and values.

#![allow(clippy::unwrap_used, reason = "for tests")]

use std::collections::BTreeSet;
use std::time::Duration;

use landfall_documentation::events_schema::{EventsSchema, Form, paths};
use landfall_report::status::{
    DiskState, Host, LastError, Network, Nic, Progress, RejectedDisk, RootDisk, Status, Step,
    WayStep,
};
use landfall_report::{ByteCount, Event};
use serde_json::{Value, json};
use tracing::Level;

fn event(level: Level, progress: Option<ByteCount>) -> Event {
    Event {
        sequence: 7,
        time: 1.2345,
        stage: "disk".into(),
        level,
        text: "no disk found -- check the controller".into(),
        progress,
    }
}

#[test]
fn every_event_has_the_form_of_the_schema() {
    let schema = EventsSchema::read().unwrap();
    let mut levels = BTreeSet::new();
    let mut fields = BTreeSet::new();
    for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG] {
        for total in [None, Some(None), Some(Some(10))] {
            let progress = total.map(|total| ByteCount { done: 5, total });
            let json = event(level, progress).json();
            assert_eq!(schema.fault(Form::Event, &json), None);
            levels.insert(json["level"].as_str().unwrap().to_owned());
            fields.extend(paths(&json));
        }
    }
    let described = schema.fields(Form::Event);
    assert_eq!(fields, described.keys().cloned().collect());
    assert_eq!(levels, described["level"].iter().cloned().collect());
}

/// A status that has every field.
fn whole(boot_mode: &str, disk_state: DiskState) -> Status {
    Status {
        host: Host {
            name: "node7".into(),
            boot_mode: boot_mode.into(),
            secure_boot: Some(true),
            memory: Some(512),
            ..Host::default()
        },
        network: Network {
            source: Some("kernel arguments".into()),
            faults: vec!["ip=: expected an address".into()],
            nics: vec![Nic {
                name: "eth0".into(),
                mac: "52:54:00:00:00:01".into(),
                permanent_mac: Some("52:54:00:00:00:02".into()),
                driver: Some("virtio_net".into()),
                bond_mode: Some("802.3ad".into()),
                ports: vec!["eth1".into()],
                vlan: Some(100),
                parent: Some("bond0".into()),
                carrier: true,
                speed: Some(1000),
                addresses: vec!["192.0.2.10/24 from kernel argument ip=".into()],
                neighbour: Some("switch3 port e1".into()),
                way: vec![WayStep {
                    step: "TLS".into(),
                    outcome: "failed".into(),
                    text: "unknown authority".into(),
                    remedy: Some("add the authority".into()),
                }],
            }],
            no_nic: Some("no driver".into()),
        },
        service: Some("https://ironic.example.org:6385".into()),
        service_answers: true,
        node: Some("1be26c0b-03f2-4d2e-ae87-c02d7f33c123".into()),
        step: Some(Step {
            name: "deploy.write_image".into(),
            since: 1.0,
        }),
        progress: Some(Progress::new(
            "writing the image",
            5 << 20,
            Some(10 << 20),
            Duration::from_secs(10),
        )),
        root_disk: Some(RootDisk {
            path: "/dev/sda".into(),
            why: "the smallest disk of at least 4 GiB".into(),
            rejected: vec![RejectedDisk {
                path: "/dev/sdb".into(),
                why: "larger".into(),
            }],
            remedy: Some("name another one".into()),
        }),
        disk_state: Some(disk_state),
        last_error: Some(LastError {
            time: 2.0,
            stage: "disk".into(),
            text: "no disk found".into(),
            remedy: Some("check the controller".into()),
        }),
        done: Some("done: this machine restarts now".into()),
        ..Status::default()
    }
}

/// As at /status.json.
fn served(status: &Status) -> Value {
    let mut json = serde_json::to_value(status).unwrap();
    json["time"] = json!(3.5);
    json["events"] = json!([event(Level::ERROR, None).json()]);
    json
}

#[test]
fn every_status_has_the_form_of_the_schema() {
    let schema = EventsSchema::read().unwrap();
    let mut fields = BTreeSet::new();
    let mut boot_modes = BTreeSet::new();
    let mut disk_states = BTreeSet::new();
    for (boot_mode, disk_state) in [("uefi", DiskState::Writing), ("bios", DiskState::Complete)] {
        let status = whole(boot_mode, disk_state);
        for json in [serde_json::to_value(&status).unwrap(), served(&status)] {
            assert_eq!(schema.fault(Form::Status, &json), None);
            boot_modes.insert(json["host"]["boot_mode"].as_str().unwrap().to_owned());
            disk_states.insert(json["disk_state"].as_str().unwrap().to_owned());
            let outside_of_events = |path: &String| !path.starts_with("events[]");
            fields.extend(paths(&json).into_iter().filter(outside_of_events));
        }
    }
    let described = schema.fields(Form::Status);
    assert_eq!(fields, described.keys().cloned().collect());
    let of = |field: &str| described[field].iter().cloned().collect();
    assert_eq!(boot_modes, of("host.boot_mode"));
    assert_eq!(disk_states, of("disk_state"));
    for unknown in [Status::default(), landfall_report::status::now()] {
        let json = serde_json::to_value(&unknown).unwrap();
        assert_eq!(schema.fault(Form::Status, &json), None);
    }
}
