//! Tests the agent in OpenShift's agent container: the real podman starts the image of
//! the release in a live system, with the unit that image-customization-controller
//! writes (its pkg/ignition/service_config.go).

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use landfall_tests::artifacts;
use landfall_tests::conductor::script::{Finish, Image, Method, Script};
use landfall_tests::conductor::{self, Conductor};
use landfall_tests::ignition::{INSTALLED_SYSTEM_OK, Proof};
use landfall_tests::image_server::{self, ImageServer, ServedFile};
use landfall_tests::installation::{BOOT, DEPLOYMENT, FIRST_BOOT, POWER_OFF, check_applied};
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::{Family, GUEST_V4, HOST_V4, Lab};
use landfall_tests::media;
use landfall_tests::site::{MAC, TEST_ARGUMENTS, meta_data};
use landfall_tests::vm::{Boot, Bus, Disk, Firmware, Guest, Machine};
use serde_json::{Value, json};

use crate::host_test;

/// In MiB, enough for the unpacked system, the archive of the image and its copy in
/// podman's storage.
const MEMORY: u32 = 2048;
const HOST_NAME: &str = "container-host-1";
const IP_OPTIONS: &str = "ip=dhcp";
/// The name of the image's archive on the HTTP server.
const ARCHIVE: &str = "landfall-agent.tar";
/// The name of the image on the HTTP server.
const IMAGE: &str = "coreos.raw.gz";
/// The signature of a GPT. A disk with an earlier installation has it at the start of its
/// second sector.
const TABLE: &[u8] = b"EFI PART";

/// The unit as image-customization-controller writes it, but without proxies and pull
/// secret. One line is added: it loads the image first, because podman must find it.
fn unit_text() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mounts = [
        (
            "/etc/ironic-python-agent.conf",
            "/etc/ironic-python-agent/ignition.conf",
        ),
        ("/dev", "/dev"),
        ("/sys", "/sys"),
        ("/run/dbus/system_bus_socket", "/run/dbus/system_bus_socket"),
        ("/", "/mnt/coreos"),
        ("/run/udev", "/run/udev"),
    ];
    let mounts =
        mounts.map(|(source, target)| format!(" --mount type=bind,src={source},dst={target}"));
    format!(
        "[Unit]\n\
         Description=Ironic Agent\n\
         After=network-online.target\n\
         Wants=network-online.target\n\
         [Service]\n\
         Environment=\"HTTP_PROXY=\"\n\
         Environment=\"HTTPS_PROXY=\"\n\
         Environment=\"NO_PROXY=\"\n\
         TimeoutStartSec=0\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         StartLimitIntervalSec=0\n\
         Type=notify\n\
         ExecStartPre=/bin/rm -f %t/%n.ctr-id\n\
         ExecStartPre=/bin/podman load -q -i /var/lib/{ARCHIVE}\n\
         ExecStart=/bin/podman run --detach --cgroups=no-conmon --sdnotify=conmon --rm \
         --cidfile=%t/%n.ctr-id --privileged --network host{} --ipc=host --uts=host \
         --env \"IPA_COREOS_IP_OPTIONS={IP_OPTIONS}\" --env IPA_COREOS_COPY_NETWORK=true \
         --env \"IPA_DEFAULT_HOSTNAME={HOST_NAME}\"  --name ironic-agent \
         localhost/landfall-agent:{version}\n\
         ExecStop=/usr/bin/podman stop --ignore --cidfile=%t/%n.ctr-id\n\
         ExecStopPost=/usr/bin/podman rm -f --ignore --cidfile=%t/%n.ctr-id\n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        mounts.concat()
    )
}

/// A unit that copies the log of the container to the console, where the test reads it.
const LOG_UNIT: &str = "\
[Unit]
Description=Shows the lines of the agent container
[Service]
ExecStart=/bin/sh -c 'until podman logs -f ironic-agent; do sleep 1; done'
StandardOutput=journal+console
StandardError=journal+console
[Install]
WantedBy=multi-user.target
";

/// Replaces OpenShift's installer: fails on its first run, succeeds on its second.
const INSTALLER_UNIT: &str = "\
[Unit]
Description=Stands for OpenShift's installer
[Service]
ExecStart=/bin/sh -c 'echo INSTALLER: $(systemctl show -P ActiveState ironic-agent); \\
  sleep 2; [ -e /run/installer-failed ] && exit 0; : > /run/installer-failed; exit 3'
StandardOutput=journal+console
";

#[test]
#[ignore = "the release has to be built"]
fn assisted_install_from_the_agent_container() {
    host_test("assisted_install_from_the_agent_container", async |lab| {
        let method = Method::AssistedInstall { failures: 1 };
        let started = Started::start(lab, script(method), Vec::new()).await?;
        started.ends().await?;
        for text in ["INSTALLER: active", "System is rebooting"] {
            lab.journal.console_line(&[text])?;
        }
        let failed =
            "the step failed: Assisted Installer Agent has failed with result \"exit-code\"";
        for text in [failed, &format!("lookup 200 of {MAC}")] {
            let start = lab.journal.start();
            lab.journal.line(Source::Conductor, start, &[text])?;
        }
        Ok(())
    });
}

#[test]
#[ignore = "the release has to be built"]
fn cleaning_from_the_agent_container() {
    host_test("cleaning_from_the_agent_container", async |lab| {
        let step = "erase_devices_metadata";
        let started = Started::start(lab, script(Method::Clean { step }), Vec::new()).await?;
        started.ends().await?;
        let mut start = [0; 1024];
        File::open(lab.path("disk.raw"))?.read_exact(&mut start)?;
        ensure!(!start[512..].starts_with(TABLE), "the disk has its table");
        Ok(())
    });
}

/// Tests the deploy step that metal3 requests in OpenShift. It puts the image and the
/// Ignition config on the disk and, because of `IPA_COREOS_COPY_NETWORK`, the network
/// settings of the live system.
#[test]
#[ignore = "the release has to be built"]
fn install_coreos_from_the_agent_container() {
    host_test("install_coreos_from_the_agent_container", async |lab| {
        let (image, hash) = artifacts::network_manager_image()?;
        // The host name of the live system overrides the host name in the meta data, as
        // it does with OpenShift's own hardware manager.
        let proof = Proof::new(HOST_NAME);
        let mut script = script(Method::InstallCoreos {
            meta_data: meta_data(),
            ignition: proof.config(),
        });
        script.image.url = image_server::url(Family::V4, IMAGE);
        script.image.hash = hash;
        let files = vec![ServedFile::read(IMAGE, &image)?];
        let started = Started::start(lab, script, files).await?;
        let machine = started.ends().await?;

        let off = lab.journal.mark();
        let machine = Machine {
            boot: Boot::Disk,
            ..machine
        };
        let guest = Guest::start(lab, &machine).await?;
        guest.console(INSTALLED_SYSTEM_OK, FIRST_BOOT).await?;
        guest.powered_off(POWER_OFF).await?;
        check_applied(&lab.journal, off, &proof)?;
        let profile = "/boot/coreos-firstboot-network/eth0.nmconnection";
        let arguments = ["TEST-ROOT: cmdline: ", IP_OPTIONS];
        for texts in [&[profile][..], &arguments] {
            lab.journal.line(Source::Console, off, texts)?;
        }
        Ok(())
    });
}

struct Started {
    machine: Machine,
    guest: Guest,
    conductor: Conductor,
    _images: ImageServer,
}

impl Started {
    async fn start(lab: &Lab, script: Script, mut files: Vec<ServedFile>) -> Result<Self> {
        files.push(ServedFile::read(ARCHIVE, &artifacts::agent_container()?)?);
        let images = ImageServer::start(lab, files).await?;
        let conductor = Conductor::start(lab, script).await?;
        let machine = machine(lab).await?;
        let guest = Guest::start(lab, &machine).await?;
        // The host loads the container image first. This took up to 240 s when two of
        // these tests ran at the same time.
        guest.console("]: agent: landfall ", 2 * BOOT).await?;
        let started = Self {
            machine,
            guest,
            conductor,
            _images: images,
        };
        started.has_settings_of_the_container(lab).await?;
        Ok(started)
    }

    /// Checks that the agent has the settings from the environment of the unit, from the
    /// defaults in the image and from the file that the unit mounts.
    async fn has_settings_of_the_container(&self, lab: &Lab) -> Result<()> {
        lab.journal
            .wait_for("the inventory", lab.journal.start(), BOOT, is_report)
            .await?;
        let inventory = self.conductor.inventory().unwrap_or_default();
        let name = &inventory["inventory"]["hostname"];
        ensure!(name == HOST_NAME, "the inventory has the host name {name}");
        ensure!(
            inventory["logs"].is_string(),
            "the collector `logs` of the image has not run"
        );
        let environment = "(environment of the agent container)";
        let image = "(/etc/ironic-python-agent/00-defaults.conf in the agent container)";
        let unit = "(/etc/ironic-python-agent/ignition.conf in the agent container)";
        for line in [
            format!("IPA_COREOS_IP_OPTIONS = {IP_OPTIONS} {environment}"),
            format!("IPA_COREOS_COPY_NETWORK = 1 {environment}"),
            format!("ipa-inspection-collectors = default,logs {image}"),
            format!("ipa-insecure = 1 {unit}"),
            format!("host name is {HOST_NAME}"),
        ] {
            self.guest.console(&line, BOOT).await?;
        }
        Ok(())
    }

    /// Waits until the deployment has succeeded and the host is powered off. Returns the
    /// machine.
    async fn ends(self) -> Result<Machine> {
        self.conductor.deployed(BOOT + DEPLOYMENT).await?;
        self.guest.powered_off(POWER_OFF).await?;
        Ok(self.machine)
    }
}

fn is_report(event: &Event) -> bool {
    event.source == Source::Conductor && event.text.starts_with("continue_inspection 202")
}

fn script(method: Method) -> Script {
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
        method,
        finish: Finish::Reboot,
        hold: false,
        heartbeat_timeout: conductor::HEARTBEAT_TIMEOUT,
        poll_while_held: false,
        erasure_concurrency: 4,
        target_raid_config: None,
    }
}

async fn machine(lab: &Lab) -> Result<Machine> {
    let path = lab.path("disk.raw");
    let disk = File::create(&path)?;
    disk.set_len(5 << 30)?;
    disk.write_all_at(TABLE, 512)?;
    Ok(Machine {
        firmware: Firmware::Bios,
        processors: 2,
        memory_mib: MEMORY,
        disks: vec![Disk {
            path,
            bus: Bus::VirtioBlk,
            unplugged: false,
            fault: None,
        }],
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

/// The live system with podman, and the Ignition config as a second archive.
async fn ramdisk(lab: &Lab) -> Result<std::path::PathBuf> {
    let folder = lab.path("embedded");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("config.ign"), ignition_config().to_string())?;
    media::with_config(lab, &artifacts::container_host()?, &folder).await
}

const CLIENT_ID: &str = "[connection]\nipv6.dhcp-duid=ll\nipv6.dhcp-iaid=mac";

/// What image-customization-controller writes: the agent's configuration, the host's
/// network and the unit. Its script for NetworkManager's dispatcher is left out,
/// because the script would set the host name before the agent does.
fn ignition_config() -> Value {
    let file = |path: &str, mode: u32, content: &str| {
        let content = BASE64_STANDARD.encode(content);
        json!({
            "path": path,
            "mode": mode,
            "overwrite": true,
            "contents": {"source": format!("data:;base64,{content}")},
        })
    };
    // As in OpenShift, inspection_callback_url is empty. enable_vlan_interfaces is also
    // empty, as for every host with a network configuration.
    let configuration = format!(
        "\n[DEFAULT]\napi_url = {}\ninspection_callback_url = \ninsecure = True\n\
         enable_vlan_interfaces = \n",
        Family::V4.url(conductor::PORT)
    );
    let connection = format!(
        "[connection]\nid=eth0\ntype=ethernet\ninterface-name=eth0\n\n\
         [ipv4]\nmethod=manual\naddress1={GUEST_V4}/24,{HOST_V4}\n\n[ipv6]\nmethod=disabled\n"
    );
    let connections = "/etc/NetworkManager/system-connections";
    let unit = |name: &str, content: &str| {
        json!({
            "name": name,
            "contents": content,
            "enabled": content.contains("[Install]"),
        })
    };
    json!({
        "ignition": {"version": "3.2.0"},
        "storage": {"files": [
            file("/etc/ironic-python-agent.conf", 0o644, &configuration),
            file(&format!("{connections}/eth0.nmconnection"), 0o600, &connection),
            file("/etc/NetworkManager/conf.d/clientid.conf", 0o644, CLIENT_ID),
            {
                "path": format!("/var/lib/{ARCHIVE}"),
                "contents": {"source": image_server::url(Family::V4, ARCHIVE)},
            },
        ]},
        "systemd": {"units": [
            unit("ironic-agent.service", &unit_text()),
            unit("show-agent.service", LOG_UNIT),
            unit("agent.service", INSTALLER_UNIT),
            {"name": "NetworkManager.service", "enabled": true},
            {"name": "NetworkManager-wait-online.service", "enabled": true},
        ]},
    })
}
