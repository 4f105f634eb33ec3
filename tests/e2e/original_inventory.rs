//! Boots the machines on which the inventory of Ironic's agent was recorded,
//! with the same QEMU command line. The agent must report the same inventory.
//!
//! Uses the distribution's generic kernel, because the cloud flavour has neither
//! AHCI nor e1000e.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use landfall_tests::journal::Source;
use landfall_tests::lab::Lab;
use landfall_tests::{artifacts, program};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::host_test;

/// The time limit from power on to the inventory, under emulation and in
/// parallel with other guests.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The fields that cannot be equal, each with the reason.
const DIFFERENCES: [(&str, &str); 15] = [
    (
        "/inventory/hostname",
        "the image of Ironic's agent is called `ipa`",
    ),
    (
        "/inventory/memory/total",
        "another kernel and ramdisk keep another part for themselves",
    ),
    ("/numa_topology/ram/0/size_kb", "as memory/total"),
    (
        "/inventory/cpu/flags",
        "the kernel's release decides which it shows",
    ),
    (
        "/configuration/managers",
        "we are OpenShift's manager, which installs CoreOS, too",
    ),
    (
        "/inventory/disks/*/by_path",
        "of several links Ironic's agent takes the one that it happens to read last",
    ),
    ("/root_disk/by_path", "as disks"),
    (
        "/inventory/disks/*/name",
        "the kernel probes disks in parallel: which one is sda is chance",
    ),
    ("/root_disk/name", "as disks"),
    ("/dmi", "dmi-decode is not carried"),
    (
        "/driver_faults",
        "Ironic's agent does not report devices without a driver",
    ),
    ("/error", "names the collectors that are missing"),
    (
        "/inventory/interfaces/*/ipv6_address",
        "whether QEMU's site-local address is there yet is chance",
    ),
    (
        "/inventory/interfaces/*/has_carrier",
        "an e1000e takes seconds to see its cable",
    ),
    (
        "/inventory/interfaces/*/speed_mbps",
        "Ironic's agent asks lshw, which does not support virtio",
    ),
];

/// docs/compatibility.md, which users read, must list the same differences.
#[test]
fn differences_are_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/compatibility.md");
    let document = std::fs::read_to_string(path).expect("the document");
    let mut documented: Vec<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `/")?.split('`').next())
        .collect();
    let mut known = DIFFERENCES.map(|(path, _)| path.trim_start_matches('/'));
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(documented, known);
}

macro_rules! machines {
    ($($(#[$attribute:meta])* $test:ident: $machine:literal, $disks:expr;)*) => {
        $($(#[$attribute])*
        #[test]
        fn $test() {
            let name = concat!("inventory_", stringify!($test));
            host_test(name, async |lab| compare(lab, $machine, &$disks).await);
        })*
    };
}

machines! {
    mixed_bios: "mixed-bios-3nic-query", [8, 4, 16, 10];
    #[ignore = "as the other machines"]
    nvme_namespace_uefi: "nvme-ns-uefi", [4];
    nvme_uefi: "nvme-uefi", [4];
    #[ignore = "as the other machines"]
    sata_bios: "sata-bios", [4, 8];
    sata_uefi: "sata-uefi-collectors", [4, 8];
    #[ignore = "as the other machines"]
    scsi_uefi: "scsi-uefi-2nic", [4, 8];
    #[ignore = "as the other machines"]
    virtio_bios: "vblk-bios", [4];
    virtio_uefi: "vblk-uefi", [4];
    #[ignore = "as the other machines"]
    virtio_without_serial_bios: "vblk-noserial-bios", [4];
}

async fn compare(lab: &Lab, machine: &str, disks: &[u64]) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../agent/inventory/test_data/original_agent")
        .join(format!("{machine}.json"));
    let recorded: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let (posted, mut bodies) = mpsc::channel(1);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    let service = Router::new()
        // Without Ironic's version document at `/` the agent would accept this service
        // only after a minute.
        .route(
            "/",
            get(async || Json(json!({"default_version": {"version": "1.115"}}))),
        )
        .route("/v1/continue_inspection", post(take))
        .with_state(posted);
    tokio::spawn(async move { axum::serve(listener, service).await });

    let mut qemu = program::bound_to_this_thread("qemu-system-x86_64")
        .args(command_line(lab, &recorded["qemu"], disks, port)?)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .context("starting qemu-system-x86_64")?;
    let output = qemu.stdout.take().context("no pipe from QEMU")?;
    let journal = lab.journal.clone();
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            journal.record(Source::Machine, line);
        }
    });
    let ours = timeout(TIMEOUT, bodies.recv())
        .await
        .context("no inventory was posted in time")?
        .context("the service has ended")?;
    qemu.kill().await?;
    let differences = differences(&ours, &recorded["body"]);
    ensure!(
        differences.is_empty(),
        "the inventories of Landfall and of Ironic's agent differ:\n{}",
        differences.join("\n")
    );
    Ok(())
}

async fn take(
    State(posted): State<mpsc::Sender<Value>>,
    Json(body): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let _ = posted.send(body).await;
    let uuid = "62347504-3396-4ff0-b5e1-bc78f454c418";
    (StatusCode::ACCEPTED, Json(json!({"uuid": uuid})))
}

/// The recorded QEMU command line without the program's name, with our kernel and
/// ramdisk, blank disks and our port.
fn command_line(lab: &Lab, recorded: &Value, disks: &[u64], port: u16) -> Result<Vec<String>> {
    for (index, gib) in disks.iter().enumerate() {
        std::fs::File::create(lab.path(&format!("d{index}.raw")))?.set_len(gib << 30)?;
    }
    std::fs::copy("/usr/share/OVMF/OVMF_VARS_4M.fd", lab.path("vars.fd"))?;
    let work = lab.path("");
    let work = work
        .to_str()
        .context("a path that is no text")?
        .trim_end_matches('/');
    // The first word is the program. The port forwarding to the agent's API is removed
    // below, because this test does not call the API.
    let words = recorded
        .as_array()
        .context("no command line")?
        .iter()
        .skip(1);
    words
        .map(|word| {
            let word = word.as_str().context("a word that is no text")?;
            let word = match word {
                "OUT/vmlinuz" => artifacts::generic_kernel()?.display().to_string(),
                "OUT/initramfs" => artifacts::generic_ramdisk()?.display().to_string(),
                _ => word
                    .replace(",hostfwd=tcp:127.0.0.1:PORT-:9999", "")
                    .replace("PORT", &port.to_string())
                    .replace("WORK", work),
            };
            Ok(word)
        })
        .collect()
}

/// Lists every path where the two documents differ although `DIFFERENCES` does not
/// allow it.
fn differences(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk("", &by_key(ours), &by_key(theirs), &mut found);
    found
}

/// Turns lists into maps, because Ironic's agent lists items in no fixed order. The
/// keys are: MAC address of a NIC, serial number of a disk, bus address of a PCI
/// device, NUMA CPU number. Removes the logs, which are specific to a boot.
fn by_key(body: &Value) -> Value {
    let mut body = body.clone();
    for (list, key) in [
        ("/inventory/interfaces", "mac_address"),
        ("/inventory/disks", "serial"),
        ("/pci_devices", "bus"),
        ("/numa_topology/cpus", "cpu"),
    ] {
        if let Some(items) = body.pointer_mut(list) {
            let keyed = items.as_array().into_iter().flatten().map(|item| {
                let key = &item[key];
                let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                (key, item.clone())
            });
            *items = Value::Object(keyed.collect());
        }
    }
    if let Some(members) = body.as_object_mut() {
        members.remove("logs");
    }
    body
}

fn walk(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    if ours == theirs || is_known(path) {
        return;
    }
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one
                .keys()
                .chain(other.keys().filter(|key| !one.contains_key(*key)))
            {
                walk(&format!("{path}/{key}"), &ours[key], &theirs[key], found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, pair) in one.iter().zip(other).enumerate() {
                walk(&format!("{path}/{index}"), pair.0, pair.1, found);
            }
        }
        _ => found.push(format!("{path}: {ours} and {theirs}")),
    }
}

fn is_known(path: &str) -> bool {
    DIFFERENCES.iter().any(|(known, _)| {
        let (known, path) = (known.split('/'), path.split('/'));
        known.clone().count() == path.clone().count()
            && known
                .zip(path)
                .all(|(known, part)| known == "*" || known == part)
    })
}
