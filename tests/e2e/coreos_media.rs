//! Boots media that were changed after the build: by the real coreos-installer, by
//! `landfall-image customize`, and as image-customization-controller changes them.
//!
//! The built media name neither Ironic nor a network. The host reaches the conductor
//! only with both changes: kernel arguments or an Ignition config that name the
//! conductor, and a network from the config or from an additional ramdisk.
//! image-build/tests/command_line/coreos_installer.rs tests the changes themselves,
//! without a host.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use landfall_media_formats::areas::Areas;
use landfall_media_formats::iso9660::Iso;
use landfall_tests::installation::deploy_and_boot;
use landfall_tests::lab::{Family, GUEST_V4, HOST_V4, Lab};
use landfall_tests::site::{MAC, Network, Plan, Site, Way};
use landfall_tests::vm::Firmware;
use landfall_tests::{artifacts, conductor, embedded_hosts, media, program};
use serde_json::{Value, json};

use crate::host_test;

/// A kernel argument of the built medium. `iso kargs modify` deletes it.
const BUILT: &str = "test.built=1";
/// The source of the network that the agent logs if the ramdisk has [`packed_plan`].
const EMBEDDED: &str = "plan embedded in the ramdisk";
/// The source of the network that the agent logs if the Ignition config has [`profile`].
const KEYFILES: &str = "NetworkManager keyfiles in the ramdisk";
/// The host name in [`agent_unit`].
const HOST_NAME: &str = "node7.example.org";

fn plan(firmware: Firmware, way: Way) -> Plan {
    Plan {
        firmware,
        way,
        // No DHCP server answers.
        network: Network::Given("ip=dhcp"),
        unattended: Some(BUILT.to_owned()),
        ..Plan::default()
    }
}

/// The kernel arguments that name the conductor.
fn ironic() -> String {
    let api = Family::V4.url(conductor::PORT);
    format!("ipa-api-url={api} ipa-inspection-callback-url={api}/v1/continue_inspection")
}

/// The host's network plan, packed as image-customization-controller packs its config.
async fn packed_plan(lab: &Lab) -> Result<Vec<u8>> {
    let archive = media::hosts(lab, &embedded_hosts::one(lab)?).await?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&archive)?;
    Ok(encoder.finish()?)
}

/// A file in an Ignition config.
fn file(path: &str, mode: u32, content: &str) -> Value {
    let content = BASE64_STANDARD.encode(content);
    json!({
        "path": path,
        "mode": mode,
        "overwrite": true,
        "contents": {"source": format!("data:;base64,{content}"), "verification": {}},
    })
}

/// The agent's configuration, which names the conductor. With [`agent_unit`] the agent
/// listens for LLDP. Nobody sends LLDP here, so the timeout is one second.
fn configuration() -> Value {
    let api = Family::V4.url(conductor::PORT);
    let configuration = format!(
        "[DEFAULT]\napi_url = {api}\ninspection_callback_url = {api}/v1/continue_inspection\n\
         insecure = True\nenable_vlan_interfaces = \nlldp_timeout = 1\n"
    );
    file("/etc/ironic-python-agent.conf", 0o644, &configuration)
}

/// NetworkManager's profile for the host's NIC.
fn profile() -> Value {
    let profile = format!(
        "[connection]\nid=lan\ntype=ethernet\n\n[ethernet]\nmac-address={MAC}\n\n\
         [ipv4]\nmethod=manual\naddress1={GUEST_V4}/24,{HOST_V4}\n\n[ipv6]\nmethod=disabled\n"
    );
    let path = "/etc/NetworkManager/system-connections/lan.nmconnection";
    file(path, 0o600, &profile)
}

/// The unit that starts Ironic's agent in OpenShift's live system. The ramdisk has no
/// podman. It only reads the environment of the container from this unit.
fn agent_unit() -> Value {
    let unit = format!(
        "[Unit]\nDescription=Ironic Agent\n[Service]\n\
         ExecStart=/bin/podman run --rm --privileged --network host \
         --env \"IPA_DEFAULT_HOSTNAME={HOST_NAME}\" --name ironic-agent quay.example/agent\n\
         [Install]\nWantedBy=multi-user.target\n"
    );
    json!({"name": "ironic-agent.service", "enabled": true, "contents": unit})
}

/// An Ignition config with these files, as image-customization-controller makes it.
fn config(files: &[Value]) -> Value {
    json!({"ignition": {"version": "3.2.0"}, "storage": {"files": files}})
}

async fn packed_config(lab: &Lab) -> Result<Vec<u8>> {
    let folder = lab.path("embedded");
    std::fs::create_dir_all(&folder)?;
    let mut config = config(&[configuration(), profile()]);
    config["systemd"] = json!({"units": [agent_unit()]});
    std::fs::write(folder.join("config.ign"), config.to_string())?;
    let pack = format!(
        "cd {} && echo config.ign | cpio -o -H newc --quiet | gzip",
        folder.display()
    );
    Ok(program::run("sh", &["-c", &pack]).await?.stdout)
}

/// Overwrites the start of the area for Ignition configs.
fn overlay(iso: &Path, bytes: &[u8]) -> Result<()> {
    let (_, places) = Areas::of(&mut Iso::open(File::open(iso)?)?)?;
    let area = places.ignition.context("no area for Ignition configs")?;
    let file = File::options().write(true).open(iso)?;
    Ok(file.write_all_at(bytes, area.offset)?)
}

/// Installs the host and boots the installed system. Returns the inspection data that the
/// conductor got.
async fn install(lab: &Lab, plan: &Plan, site: &Site, source: &str) -> Result<Value> {
    let services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    deploy_and_boot(lab, plan, site, &services, guest).await?;
    lab.journal
        .console_line(&[&format!("network: source: {source}")])?;
    // Neither line may appear: the agent prints them if it cannot start the process of
    // the parsers, or cannot confine it.
    for remark in [
        "parsers of media, config.ign and LLDP",
        "with its own privileges",
    ] {
        let line = lab.journal.console_line(&[remark]);
        ensure!(line.is_err(), "the parsers: {line:?}");
    }
    let inspection = services.conductor.inventory();
    inspection.context("the conductor got no inventory")
}

/// Everything that this host knows of its site is in the overlay.
#[test]
fn iso_of_image_customization_controller() {
    host_test("iso_of_image_customization_controller", async |lab| {
        let plan = plan(Firmware::Uefi, Way::Iso);
        let mut site = plan.site(lab).await?;
        // The name that the host has already overrides the one in the meta data.
        site.proof = site.proof.with_host_name(HOST_NAME);
        let iso = site.machine.boot.medium().context("no ISO")?;
        overlay(iso, &packed_config(lab).await?)?;
        let inspection = install(lab, &plan, &site, KEYFILES).await?;
        let name = &inspection["inventory"]["hostname"];
        ensure!(name == HOST_NAME, "the inventory has the host name {name}");
        Ok(())
    });
}

/// coreos-installer packs everything in the area again, in its own way (xz). Here the
/// area has the plan with the network, and a config that names the conductor.
#[test]
#[ignore = "coreos-installer has to be built"]
fn iso_changed_by_coreos_installer() {
    host_test("iso_changed_by_coreos_installer", async |lab| {
        let plan = plan(Firmware::Uefi, Way::Iso);
        let site = plan.site(lab).await?;
        let iso = site.machine.boot.medium().context("no ISO")?;
        overlay(iso, &packed_plan(lab).await?)?;
        let path = lab.path("config.ign");
        std::fs::write(&path, config(&[configuration()]).to_string())?;
        let installer = artifacts::coreos_installer()?.display().to_string();
        let (iso, config) = (iso.display().to_string(), path.display().to_string());
        let changed = "test.changed=1";
        for arguments in [
            &[
                "iso", "kargs", "modify", "--delete", BUILT, "--append", changed, &iso,
            ][..],
            &["iso", "ignition", "embed", "-i", &config, &iso],
        ] {
            program::run(&installer, arguments).await?;
        }
        install(lab, &plan, &site, EMBEDDED).await?;
        // The first line of the kernel that has all arguments.
        let line = lab.journal.console_line(&["ommand line: ", changed])?;
        ensure!(!line.text.contains(BUILT), "{BUILT} is in {}", line.text);
        Ok(())
    });
}

#[test]
#[ignore = "as iso_of_image_customization_controller"]
fn customized_stick() {
    host_test("customized_stick", async |lab| {
        let plan = plan(Firmware::Bios, Way::UsbStick);
        let site = plan.site(lab).await?;
        let stick = site.machine.boot.medium().context("no stick")?;
        let (builder, stick) = (artifacts::builder()?, stick.display().to_string());
        let (ironic, host) = (ironic(), embedded_hosts::one(lab)?);
        let mut arguments = vec!["customize", &stick, "--in-place"];
        arguments.extend(["--karg-delete", BUILT, "--karg", &ironic]);
        arguments.extend(host.iter().map(String::as_str));
        program::run(&builder.display().to_string(), &arguments).await?;
        install(lab, &plan, &site, EMBEDDED).await.map(drop)
    });
}

async fn install_by_network(lab: &Lab, plan: &Plan, addition: Vec<u8>, source: &str) -> Result<()> {
    let mut site = plan.site(lab).await?;
    // TFTP serves the file, HTTP what was read from it.
    std::fs::write(lab.path("pxe").join(media::ADDITION), &addition)?;
    let served = site.files.iter_mut();
    let served = served.filter(|file| file.name == media::ADDITION);
    served.for_each(|file| file.content = addition.clone().into());
    install(lab, plan, &site, source).await.map(drop)
}

/// iPXE, by HTTP. The network boot tree's own kernel arguments name the conductor: no
/// program of CoreOS changes them.
#[test]
#[ignore = "as host_of_a_network_tree_for_many"]
fn network_boot_with_an_addition_bios() {
    host_test("network_boot_with_an_addition_bios", async |lab| {
        let plan = Plan {
            unattended: Some(ironic()),
            ..plan(Firmware::Bios, Way::Pxe)
        };
        let addition = packed_plan(lab).await?;
        install_by_network(lab, &plan, addition, EMBEDDED).await
    });
}

/// shim and GRUB, by TFTP. coreos-installer has made the additional ramdisk from a
/// config. Everything that this host knows about its site is in this config.
#[test]
#[ignore = "coreos-installer has to be built"]
fn network_boot_with_a_wrapped_config() {
    host_test("network_boot_with_a_wrapped_config", async |lab| {
        let (path, wrapped) = (lab.path("config.ign"), lab.path("wrapped.img"));
        let config = config(&[configuration(), profile()]);
        std::fs::write(&path, config.to_string())?;
        let installer = artifacts::coreos_installer()?.display().to_string();
        let (from, to) = (path.display().to_string(), wrapped.display().to_string());
        let arguments = ["pxe", "ignition", "wrap", "-i", &from, "-o", &to];
        program::run(&installer, &arguments).await?;
        let plan = plan(Firmware::Uefi, Way::Pxe);
        install_by_network(lab, &plan, std::fs::read(wrapped)?, KEYFILES).await
    });
}
