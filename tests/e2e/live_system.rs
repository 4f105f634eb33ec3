//! Tests the agent as a service of a live system, with the real systemd, D-Bus,
//! NetworkManager and Ignition in the guest's memory.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use landfall_tests::artifacts;
use landfall_tests::conductor::script::{Finish, Image, Method, Script};
use landfall_tests::conductor::{self, Conductor};
use landfall_tests::image_server::{self, ImageServer, ServedFile};
use landfall_tests::installation::{BOOT, DEPLOYMENT, POWER_OFF};
use landfall_tests::journal::Source;
use landfall_tests::lab::{Family, GUEST_V4, HOST_V4, Lab};
use landfall_tests::media;
use landfall_tests::program;
use landfall_tests::site::{MAC, TEST_ARGUMENTS};
use landfall_tests::vm::{Boot, Bus, Disk, Firmware, Guest, Machine};
use serde_json::{Value, json};

use crate::host_test;

/// The memory of the guest in MiB. The unpacked live system takes half of it.
pub const MEMORY_MIB: u32 = 1280;

const HOST_NAME: &str = "live-host-1";

/// The name of the agent's program on the HTTP server.
pub const AGENT_FILE: &str = "landfall-agent-live";

/// Stands in for OpenShift's installer. It prints what it sees of the agent's work,
/// fails on its first run and succeeds on its second.
const INSTALLER: &str = r#"#!/bin/sh
say() { echo "INSTALLER: $*"; }
say "service $(systemctl show -P Type -P ActiveState -P SubState landfall-agent | tr '\n' ' ')"
say "status $(systemctl show -P StatusText landfall-agent)"
say "host name $(hostname) static $(cat /etc/hostname)"
for file in /etc/NetworkManager/system-connections/*; do
  say "profile $(stat -c '%n %a %u' "$file")"
done
nmcli -t -f TYPE,STATE,FILENAME connection show --active | while read -r line; do say "active $line"; done
say "default $(ip -4 route show default)"
say "resolver $(grep nameserver /etc/resolv.conf)"
sleep 2
[ -e /run/installer-failed ] && exit 0
: > /run/installer-failed
exit 3
"#;

const INSTALLER_UNIT: &str = "\
[Unit]
Description=Stands for OpenShift's installer
[Service]
ExecStart=/usr/local/bin/installer
StandardOutput=journal+console
";

#[test]
fn service_of_a_live_system() {
    host_test("service_of_a_live_system", async |lab| {
        let images = ImageServer::start(
            lab,
            vec![ServedFile::read(AGENT_FILE, &artifacts::live_agent()?)?],
        )
        .await?;
        let conductor = Conductor::start(lab, script()).await?;
        let installer = Addition {
            unit: "agent.service",
            unit_content: INSTALLER_UNIT,
            program: "/usr/local/bin/installer",
            program_content: INSTALLER,
        };
        let guest = Guest::start(lab, &machine(lab, &installer).await?).await?;

        // This wait detects a broken live system early, before the longer wait for the
        // deployment.
        guest.console("]: agent: landfall ", BOOT).await?;
        conductor.deployed(BOOT + DEPLOYMENT).await?;
        guest.powered_off(POWER_OFF).await?;

        let fetched = images.requests(AGENT_FILE);
        ensure!(fetched.len() == 1, "Ignition has fetched: {fetched:?}");
        check_console(lab)?;
        let failed =
            "the step failed: Assisted Installer Agent has failed with result \"exit-code\"";
        for text in [failed, &format!("lookup 200 of {MAC}")] {
            let start = lab.journal.start();
            lab.journal.line(Source::Conductor, start, &[text])?;
        }
        Ok(())
    });
}

/// Creates an LVM volume and leaves it active. In a real boot, udev activates the
/// volumes that it finds.
const MAKE_VOLUME: &str = "#!/bin/sh
set -e
modprobe dm_mod
pvcreate -y /dev/vda
vgcreate data /dev/vda
lvcreate -y -L 64M -n home data
echo \"VOLUME: $(ls /dev/mapper/data-home)\"
";

const VOLUME_UNIT: &str = "\
[Unit]
Description=Makes an LVM volume
Before=landfall-agent.service
[Service]
Type=oneshot
ExecStart=/usr/local/bin/make-volume
StandardOutput=journal+console
[Install]
WantedBy=multi-user.target
";

/// The agent cleans a disk although an LVM volume on it is active.
#[test]
#[ignore = "as array_of_an_old_installation"]
fn active_lvm_volume_is_cleaned() {
    host_test("active_lvm_volume_is_cleaned", async |lab| {
        let _images = ImageServer::start(
            lab,
            vec![ServedFile::read(AGENT_FILE, &artifacts::live_agent()?)?],
        )
        .await?;
        let script = Script {
            method: Method::Clean {
                step: "erase_devices_metadata",
            },
            ..script()
        };
        let conductor = Conductor::start(lab, script).await?;
        let volume = Addition {
            unit: "make-volume.service",
            unit_content: VOLUME_UNIT,
            program: "/usr/local/bin/make-volume",
            program_content: MAKE_VOLUME,
        };
        let machine = machine(lab, &volume).await?;
        let guest = Guest::start(lab, &machine).await?;
        guest.console("VOLUME: /dev/mapper/data-home", BOOT).await?;
        conductor.deployed(BOOT + DEPLOYMENT).await?;
        guest.powered_off(POWER_OFF).await?;
        lab.journal
            .console_line(&["/dev/vda: dm-0 (data-home) on it is deactivated"])?;
        let waited = lab.journal.console_line(&["waiting for it"]);
        ensure!(waited.is_err(), "it waited: {waited:?}");
        let mut start = [0; 1024];
        std::fs::File::open(&machine.disks[0].path)?.read_exact(&mut start)?;
        ensure!(
            !start[512..].starts_with(b"LABELONE"),
            "the label of the volume is left"
        );
        Ok(())
    });
}

/// Checks what the guest printed about the agent and its work.
fn check_console(lab: &Lab) -> Result<()> {
    for text in [
        // This line shows that Ignition has applied the builder's config completely.
        "Ignition finished successfully",
        "INSTALLER: service notify active running",
        "INSTALLER: status live_system: agent.service started",
        &format!("INSTALLER: host name {HOST_NAME} static {HOST_NAME}"),
        "nmconnection 600 0",
        "INSTALLER: active 802-3-ethernet:activated:/etc/NetworkManager/system-connections/",
        &format!("INSTALLER: default default via {HOST_V4} "),
        "INSTALLER: resolver nameserver 192.0.2.53",
        &format!("network: eth0 {GUEST_V4}/24 from embedded plan"),
        // These lines prove that logind reboots the system. Only the agent requests a
        // reboot from logind.
        "systemd-logind",
        "System is rebooting",
    ] {
        lab.journal.console_line(&[text])?;
    }
    let unknown = lab.journal.console_line(&["Unused key"]);
    ensure!(unknown.is_err(), "Ignition: {unknown:?}");
    Ok(())
}

fn script() -> Script {
    Script {
        macs: vec![MAC.to_owned()],
        root_device: None,
        automated_clean: false,
        uefi: false,
        image: Image {
            url: image_server::url(Family::V4, "none"),
            hash_algorithm: "sha256",
            hash: "00".repeat(32),
            authorization: None,
        },
        method: Method::AssistedInstall { failures: 1 },
        finish: Finish::Reboot,
        hold: false,
        heartbeat_timeout: conductor::HEARTBEAT_TIMEOUT,
        poll_while_held: false,
        erasure_concurrency: 4,
        target_raid_config: None,
    }
}

async fn machine(lab: &Lab, addition: &Addition) -> Result<Machine> {
    let disk = lab.path("disk.raw");
    std::fs::File::create(&disk)?.set_len(5 << 30)?;
    Ok(Machine {
        firmware: Firmware::Bios,
        processors: 1,
        memory_mib: MEMORY_MIB,
        disks: vec![Disk {
            path: disk,
            bus: Bus::VirtioBlk,
            unplugged: false,
            fault: None,
        }],
        nics: vec![MAC.to_owned()],
        boot: boot(lab, addition).await?,
        variables: lab.path("uefi-variables"),
        error_records: None,
        first_tap: 0,
        cords: Vec::new(),
        data_medium: None,
        extras: Vec::new(),
        late_nic: false,
    })
}

/// A direct boot of the live system with this addition.
pub async fn boot(lab: &Lab, addition: &Addition) -> Result<Boot> {
    Ok(Boot::Direct {
        kernel: artifacts::kernel()?,
        ramdisk: ramdisk(lab, addition).await?,
        // The initramfs sets the address `live.address` for Ignition. The address is
        // gone when systemd starts.
        arguments: format!(
            "{TEST_ARGUMENTS} net.ifnames=0 live.address={GUEST_V4}/24 \
             IPA_DEFAULT_HOSTNAME={HOST_NAME}"
        ),
    })
}

/// Writes the `network_data.json` that the builder embeds for the host.
fn network_data(lab: &Lab) -> Result<PathBuf> {
    let path = lab.path("network_data.json");
    let network_data = json!({
        "links": [{"id": "nic", "type": "phy", "ethernet_mac_address": MAC}],
        "networks": [{
            "id": "provisioning", "type": "ipv4", "link": "nic",
            "ip_address": GUEST_V4, "netmask": "255.255.255.0",
            "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": HOST_V4}],
        }],
        "services": [{"type": "dns", "address": "192.0.2.53"}],
    });
    std::fs::write(&path, network_data.to_string())?;
    Ok(path)
}

/// Builds the ramdisk of the live system, with the builder's Ignition config as a
/// second cpio archive, as in CoreOS.
async fn ramdisk(lab: &Lab, addition: &Addition) -> Result<PathBuf> {
    let folder = lab.path("embedded");
    std::fs::create_dir_all(&folder)?;
    let config = folder.join("config.ign");
    let api = Family::V4.url(conductor::PORT);
    let callback = format!("{api}/v1/continue_inspection");
    let agent = artifacts::live_agent()?.display().to_string();
    let builder = artifacts::builder()?.display().to_string();
    let config_text = config.display().to_string();
    let url = image_server::url(Family::V4, AGENT_FILE);
    let network = network_data(lab)?.display().to_string();
    let options = [
        "coreos-live",
        "--agent",
        &agent,
        "--agent-url",
        &url,
        "--api-url",
        &api,
        "--inspection-callback-url",
        &callback,
        "--network-data",
        &network,
        "-o",
        &config_text,
    ];
    program::run(&builder, &options).await?;
    let text = std::fs::read_to_string(&config)?;
    std::fs::write(&config, addition.to_config(serde_json::from_str(&text)?)?)?;
    media::with_config(lab, &artifacts::live_system()?, &folder).await
}

/// A program and its systemd unit. Ignition writes both files.
pub struct Addition {
    pub unit: &'static str,
    pub unit_content: &'static str,
    pub program: &'static str,
    pub program_content: &'static str,
}

impl Addition {
    /// Adds the program and the unit to the Ignition config, as OpenShift's own config
    /// adds its installer.
    fn to_config(&self, mut config: Value) -> Result<String> {
        let program = BASE64_STANDARD.encode(self.program_content);
        let files = config["storage"]["files"].as_array_mut();
        files.context("no files in the config")?.push(json!({
            "path": self.program,
            "mode": 0o755,
            "overwrite": true,
            "contents": {"source": format!("data:;base64,{program}")},
        }));
        let units = config["systemd"]["units"].as_array_mut();
        let mut unit = json!({"name": self.unit, "contents": self.unit_content});
        if self.unit_content.contains("[Install]") {
            unit["enabled"] = true.into();
        }
        units.context("no units in the config")?.push(unit);
        Ok(config.to_string())
    }
}
