//! Tests the systemd unit of the image service: the real systemd of a live system starts
//! the program of the release as a dynamic user, with all restrictions of the unit.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use landfall_tests::image_server::{self, ImageServer, ServedFile};
use landfall_tests::installation::BOOT;
use landfall_tests::lab::{Family, GUEST_V4, Lab};
use landfall_tests::site::{MAC, TEST_ARGUMENTS};
use landfall_tests::vm::{Boot, Firmware, Guest, Machine};
use landfall_tests::{artifacts, media};
use serde_json::{Value, json};

use crate::host_test;

/// In MiB, enough for the unpacked live system, the program, and the ISO as a file and
/// in the memory of the service.
const MEMORY: u32 = 1536;

/// The names of the program and of the base ISO on the HTTP server.
const PROGRAM: &str = "landfall-image";
const ISO: &str = "base.iso";

const UNIT: &str = include_str!("../../image-build/systemd/landfall-image.service");

/// Port 80, which needs the capability of the unit.
const OPTIONS: &str =
    "OPTIONS=--iso /srv/landfall/base.iso --hosts /srv/landfall/hosts --listen 0.0.0.0:80\n";

const HOST: &str = "interfaces:\n- name: eno1\n  type: ethernet\n  state: up\n  ipv4:\n    \
                    enabled: true\n    address:\n    - ip: 192.0.2.99\n      prefix-length: 24\n";

/// A script that prints the state of the service from systemd and from /proc, and reloads
/// the service.
const LOOK: &str = r#"#!/bin/sh
say() { echo "UNIT: $*"; }
show() { systemctl show -P "$1" landfall-image; }
say "$(show Type) $(show ActiveState) $(show SubState)"
pid=$(show MainPID)
for key in Uid NoNewPrivs CapEff; do say $(grep "^$key:" "/proc/$pid/status"); done
systemctl reload landfall-image && say "reloaded $(show ActiveState) $(show MainPID) was $pid"
"#;

const LOOK_UNIT: &str = "\
[Unit]
Description=Looks at the image service
Wants=landfall-image.service
After=landfall-image.service
[Service]
Type=oneshot
ExecStart=/usr/local/bin/look
StandardOutput=journal+console
[Install]
WantedBy=multi-user.target
";

#[test]
#[ignore = "the release has to be built"]
fn image_service_as_a_unit() {
    host_test("image_service_as_a_unit", async |lab| {
        let iso = media::iso(lab, TEST_ARGUMENTS, &[]).await?;
        let size = std::fs::metadata(&iso)?.len();
        let files = vec![
            ServedFile::read(PROGRAM, &artifacts::release_builder()?)?,
            ServedFile::read(ISO, &iso)?,
        ];
        let _images = ImageServer::start(lab, files).await?;
        let guest = Guest::start(lab, &machine(lab).await?).await?;
        guest.console("UNIT: notify active running", BOOT).await?;
        // systemd chooses the user of `DynamicUser` from this range (systemd.exec(5)).
        let line = guest.console("UNIT: Uid: ", BOOT).await?;
        let user = line.text.rsplit(' ').next().unwrap_or_default();
        let user: u32 = user.parse().with_context(|| line.text.clone())?;
        ensure!((61_184..=65_519).contains(&user), "{}", line.text);
        guest.console("UNIT: NoNewPrivs: 1", BOOT).await?;
        // CAP_NET_BIND_SERVICE alone.
        let capabilities = format!("UNIT: CapEff: {:016x}", 1 << 10);
        guest.console(&capabilities, BOOT).await?;
        let line = guest.console("UNIT: reloaded active ", BOOT).await?;
        let (_, ids) = line.text.split_once("active ").context("no id")?;
        let (now, before) = ids.split_once(" was ").context("no id")?;
        ensure!(now.trim() == before.trim(), "{}", line.text);

        // reqwest needs a crypto provider even for plain HTTP. An error means that a
        // provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build()?;
        let url = format!("http://{GUEST_V4}/node1.iso");
        let served = client.get(url).send().await?.error_for_status()?;
        let served = served.bytes().await?.len();
        ensure!(
            served as u64 == size,
            "expected {size} bytes, found {served}"
        );
        guest.cut_power().await
    });
}

async fn machine(lab: &Lab) -> Result<Machine> {
    Ok(Machine {
        firmware: Firmware::Bios,
        processors: 1,
        memory_mib: MEMORY,
        disks: Vec::new(),
        nics: vec![MAC.to_owned()],
        boot: Boot::Direct {
            kernel: artifacts::kernel()?,
            ramdisk: ramdisk(lab).await?,
            // Only Ignition uses this address: afterwards NetworkManager configures the
            // network.
            arguments: format!("{TEST_ARGUMENTS} net.ifnames=0 live.address={GUEST_V4}/24"),
        },
        variables: lab.path("uefi-variables"),
        error_records: None,
        first_tap: 0,
        cords: Vec::new(),
        data_medium: None,
        extras: Vec::new(),
        late_nic: false,
    })
}

/// The live system, and the Ignition config as a second archive.
async fn ramdisk(lab: &Lab) -> Result<PathBuf> {
    let folder = lab.path("embedded");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("config.ign"), ignition_config().to_string())?;
    media::with_config(lab, &artifacts::live_system()?, &folder).await
}

fn ignition_config() -> Value {
    let fetched = |path: &str, mode: u32, name: &str| {
        let source = image_server::url(Family::V4, name);
        json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": source}})
    };
    let file = |path: &str, mode: u32, content: &str| {
        let source = format!("data:;base64,{}", BASE64_STANDARD.encode(content));
        json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": source}})
    };
    let connection = format!(
        "[connection]\nid=eth0\ntype=ethernet\ninterface-name=eth0\n\n\
         [ipv4]\nmethod=manual\naddress1={GUEST_V4}/24\n\n[ipv6]\nmethod=disabled\n"
    );
    json!({
        "ignition": {"version": "3.2.0"},
        "storage": {"files": [
            fetched("/usr/bin/landfall-image", 0o755, PROGRAM),
            fetched("/srv/landfall/base.iso", 0o644, ISO),
            file("/srv/landfall/hosts/node1.yaml", 0o644, HOST),
            file("/etc/landfall/image-service.conf", 0o644, OPTIONS),
            file("/usr/local/bin/look", 0o755, LOOK),
            file("/etc/NetworkManager/system-connections/eth0.nmconnection", 0o600, &connection),
        ]},
        "systemd": {"units": [
            {"name": "landfall-image.service", "contents": UNIT, "enabled": true},
            {"name": "look.service", "contents": LOOK_UNIT, "enabled": true},
            {"name": "NetworkManager.service", "enabled": true},
            {"name": "NetworkManager-wait-online.service", "enabled": true},
        ]},
    })
}
