//! Boots media that were changed after the build: by the real coreos-installer, by
//! `landfall-image customize`, and as image-customization-controller changes them.
//!
//! The built media know neither Ironic nor a network. The host reaches the conductor
//! only with both changes: kernel arguments that name it, and a network plan from
//! an additional ramdisk. The changes themselves, without a host:
//! image-build/tests/command_line/coreos_installer.rs.

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
use serde_json::json;

use crate::host_test;

/// A kernel argument of the built medium. `iso kargs modify` deletes it.
const BUILT: &str = "test.built=1";
/// The source of the network with [`packed_plan`].
const EMBEDDED: &str = "plan embedded in the ramdisk";
const CONFIG: &[u8] = b"{\"ignition\": {\"version\": \"3.2.0\"}}";

fn plan(firmware: Firmware, way: Way) -> Plan {
    Plan {
        firmware,
        way,
        // Nobody answers.
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

/// A config of image-customization-controller: the agent's configuration, which names the
/// conductor, and NetworkManager's profile for the host's NIC.
async fn packed_config(lab: &Lab) -> Result<Vec<u8>> {
    let file = |path: &str, mode: u32, content: &str| {
        let content = BASE64_STANDARD.encode(content);
        json!({
            "path": path,
            "mode": mode,
            "overwrite": true,
            "contents": {"source": format!("data:;base64,{content}"), "verification": {}},
        })
    };
    let api = Family::V4.url(conductor::PORT);
    let configuration = format!(
        "[DEFAULT]\napi_url = {api}\ninspection_callback_url = {api}/v1/continue_inspection\n\
         insecure = True\nenable_vlan_interfaces = \n"
    );
    let profile = format!(
        "[connection]\nid=lan\ntype=ethernet\n\n[ethernet]\nmac-address={MAC}\n\n\
         [ipv4]\nmethod=manual\naddress1={GUEST_V4}/24,{HOST_V4}\n\n[ipv6]\nmethod=disabled\n"
    );
    let connections = "/etc/NetworkManager/system-connections";
    let config = json!({
        "ignition": {"version": "3.2.0"},
        "storage": {"files": [
            file("/etc/ironic-python-agent.conf", 0o644, &configuration),
            file(&format!("{connections}/lan.nmconnection"), 0o600, &profile),
        ]},
    });
    let folder = lab.path("embedded");
    std::fs::create_dir_all(&folder)?;
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

async fn install(lab: &Lab, plan: &Plan, site: &Site, source: &str) -> Result<()> {
    let services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    deploy_and_boot(lab, plan, site, &services, guest).await?;
    lab.journal.said(&[&format!("network: source: {source}")])?;
    // Their process could be started, and confined completely.
    for remark in [
        "parsers of media, config.ign and LLDP",
        "with its own privileges",
    ] {
        let line = lab.journal.said(&[remark]);
        ensure!(line.is_err(), "the parsers: {line:?}");
    }
    Ok(())
}

/// Everything that this host knows of its site is in the overlay.
#[test]
fn iso_of_image_customization_controller() {
    host_test("iso_of_image_customization_controller", async |lab| {
        let plan = plan(Firmware::Uefi, Way::Iso);
        let site = plan.site(lab).await?;
        let iso = site.machine.boot.medium().context("no ISO")?;
        overlay(iso, &packed_config(lab).await?)?;
        install(lab, &plan, &site, "NetworkManager keyfiles in the ramdisk").await
    });
}

/// coreos-installer packs everything in the area again, in its own way (xz): here the
/// plan and a config.
#[test]
#[ignore = "coreos-installer has to be built"]
fn iso_changed_by_coreos_installer() {
    host_test("iso_changed_by_coreos_installer", async |lab| {
        let plan = plan(Firmware::Uefi, Way::Iso);
        let site = plan.site(lab).await?;
        let iso = site.machine.boot.medium().context("no ISO")?;
        overlay(iso, &packed_plan(lab).await?)?;
        let config = lab.path("config.ign");
        std::fs::write(&config, CONFIG)?;
        let installer = artifacts::coreos_installer()?.display().to_string();
        let (iso, config) = (iso.display().to_string(), config.display().to_string());
        let ironic = ironic();
        for arguments in [
            &[
                "iso", "kargs", "modify", "--delete", BUILT, "--append", &ironic, &iso,
            ][..],
            &["iso", "ignition", "embed", "-i", &config, &iso],
        ] {
            program::run(&installer, arguments).await?;
        }
        install(lab, &plan, &site, EMBEDDED).await
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
        install(lab, &plan, &site, EMBEDDED).await
    });
}

/// The network boot tree's own kernel arguments name the conductor: no program of CoreOS
/// changes them.
async fn install_by_network(lab: &Lab, firmware: Firmware) -> Result<()> {
    let plan = Plan {
        unattended: Some(ironic()),
        ..plan(firmware, Way::Pxe)
    };
    let mut site = plan.site(lab).await?;
    let addition = packed_plan(lab).await?;
    // TFTP serves the file, HTTP what was read from it.
    std::fs::write(lab.path("pxe").join(media::ADDITION), &addition)?;
    let served = site.files.iter_mut();
    let served = served.filter(|file| file.name == media::ADDITION);
    served.for_each(|file| file.content = addition.clone().into());
    install(lab, &plan, &site, EMBEDDED).await
}

/// iPXE, by HTTP.
#[test]
#[ignore = "as host_of_a_network_tree_for_many"]
fn network_boot_with_an_addition_bios() {
    host_test("network_boot_with_an_addition_bios", async |lab| {
        install_by_network(lab, Firmware::Bios).await
    });
}

/// shim and GRUB, by TFTP.
#[test]
#[ignore = "as host_of_a_network_tree_for_many"]
fn network_boot_with_an_addition_uefi() {
    host_test("network_boot_with_an_addition_uefi", async |lab| {
        install_by_network(lab, Firmware::Uefi).await
    });
}
