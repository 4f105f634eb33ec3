//! Tests HTTPS servers: which certificates the agent trusts, and what it prints
//! about the others.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use landfall_tests::authority::{Authority, Fault};
use landfall_tests::ca_bundle;
use landfall_tests::image_server::{Behaviour, ImageServer, ServedFile};
use landfall_tests::installation::{BOOT, DEPLOYMENT};
use landfall_tests::journal::{Source, ensure_contains};
use landfall_tests::lab::{HOST_V4, Lab};
use landfall_tests::old_disk::{OldDisk, ensure_untouched};
use landfall_tests::site::{Network, Plan, Site};
use landfall_tests::vm::{Boot, Guest};
use landfall_tests::{artifacts, media};

use crate::host_test;
use crate::unattended::{STATIC, boots};

/// The ports of the servers with a good certificate and with a bad one.
const GOOD: u16 = 8443;
const BAD: u16 = 8444;

const IMAGE: &str = "coreos.raw.gz";
const CONFIG: &str = "worker.ign";
const STREAM: &str = "streams/test.json";

/// The port that serves each of the three files.
struct Ports {
    image: u16,
    config: u16,
    stream: u16,
}

const ALL_GOOD: Ports = Ports {
    image: GOOD,
    config: GOOD,
    stream: GOOD,
};

fn url(port: u16, name: &str) -> String {
    format!("https://{HOST_V4}:{port}/{name}")
}

fn file(name: &str, content: impl Into<Vec<u8>>) -> ServedFile {
    ServedFile {
        name: name.to_owned(),
        content: content.into().into(),
        behaviour: Behaviour::default(),
    }
}

/// How the agent learns which authorities to trust.
enum Trust {
    /// Options of the builder.
    Options([String; 2]),
    /// Files in a second ramdisk.
    Files(Vec<(&'static str, Vec<u8>)>),
}

impl Trust {
    /// `ipa-cacert-bundle`, as metal3's image makes it.
    fn cacert_bundle(pem: &str) -> Self {
        Self::Files(ca_bundle::files(pem))
    }
}

/// A host with a config file in its ramdisk that installs the image of a stream.
async fn site(lab: &Lab, plan: &Plan, ports: &Ports, trust: Trust) -> Result<Site> {
    let mut site = plan.site(lab).await?;
    let sha256 = artifacts::coreos_image_sha256(plan.packing)?;
    let image = url(ports.image, IMAGE);
    let stream = serde_json::json!({"architectures": {"x86_64": {"artifacts": {"metal": {
        "release": "1.2.3",
        "formats": {"raw.gz": {"disk": {"location": image, "sha256": sha256}}},
    }}}}});
    site.files.push(file(CONFIG, site.proof.config()));
    site.files.push(file(STREAM, stream.to_string()));
    let order = format!(
        "stream: test\nstream-base-url: {}\nignition-url: {}\ndest-device: /dev/vda\n",
        url(ports.stream, "streams/"),
        url(ports.config, CONFIG)
    );
    let mut files = vec![("etc/coreos/installer.d/order.yaml", order.into_bytes())];
    let options = match trust {
        Trust::Options(options) => options.to_vec(),
        Trust::Files(more) => {
            files.extend(more);
            Vec::new()
        }
    };
    site.machine.boot = Boot::Direct {
        kernel: artifacts::kernel()?,
        ramdisk: media::ramdisk(lab, &options, &files).await?,
        arguments: plan.kernel_arguments(),
    };
    Ok(site)
}

fn plan() -> Plan {
    Plan {
        network: Network::Given(STATIC),
        // The config file in the ramdisk requests the installation.
        unattended: Some(String::new()),
        ..Plan::default()
    }
}

fn put(lab: &Lab, name: &str, pem: &str) -> Result<PathBuf> {
    let path = lab.path(name);
    std::fs::write(&path, pem)?;
    Ok(path)
}

fn option(name: &str, path: &std::path::Path) -> [String; 2] {
    [name.to_owned(), path.display().to_string()]
}

/// A host fetches stream metadata, Ignition config and image over HTTPS, and boots the
/// installed system.
async fn installs(lab: &Lab, trust: Trust, authority: &Authority, clock: &str) -> Result<()> {
    let plan = plan();
    let site = site(lab, &plan, &ALL_GOOD, trust).await?;
    let config = authority.server(Fault::None)?;
    let servers = ImageServer::start_tls(lab, GOOD, config, site.files.clone()).await?;
    let guest = Guest::start_at(lab, &site.machine, clock).await?;
    guest.console("init: landfall", BOOT).await?;
    guest.console("agent: installing to /dev/", BOOT).await?;
    // With a direct boot QEMU exits at a reset.
    guest.powered_off(DEPLOYMENT).await?;
    let reset = lab.journal.mark();
    for name in [STREAM, CONFIG, IMAGE] {
        ensure!(
            !servers.requests(name).is_empty(),
            "{name} did not come by https"
        );
    }
    let unverified = lab.journal.console_line(&["written unverified"]);
    ensure!(unverified.is_err(), "the stream's digest was not used");
    let guest = site.power_on_from_disk(lab).await?;
    boots(lab, &site, guest, reset).await
}

/// The test's authority is one of about 140 in the bundle; the others are public. The
/// hardware clock is at 2010, as with an empty battery, so no certificate is valid yet.
#[test]
fn https_by_the_bundle_with_a_clock_that_is_years_off() {
    host_test("https_by_the_bundle", async |lab| {
        let authority = Authority::new("Landfall Test Root")?;
        let public = std::fs::read_to_string("/etc/ssl/certs/ca-certificates.crt");
        let bundle = public.unwrap_or_default() + &authority.pem;
        let bundle = put(lab, "bundle.pem", &bundle)?;
        let trust = Trust::Options(option("--ca-bundle", &bundle));
        installs(lab, trust, &authority, "2010-01-01T00:00:00").await?;
        lab.journal.console_line(&["clock: set from 2010-01-01"])?;
        Ok(())
    });
}

#[test]
fn https_by_a_private_authority() {
    host_test("https_by_a_private_authority", async |lab| {
        let authority = Authority::new("Site CA")?;
        let trust = Trust::cacert_bundle(&authority.pem);
        installs(lab, trust, &authority, "2026-11-22T00:00:00").await
    });
}

/// One server presents a certificate that the agent does not trust. The console
/// reports the reason once, the agent does not retry, and the disk stays unchanged.
async fn refused(
    lab: &Lab,
    ports: Ports,
    fault: Fault,
    known: bool,
    [reason, remedy]: [&str; 2],
) -> Result<()> {
    let plan = Plan {
        disk_mib: 256,
        disk_before: OldDisk::Pattern,
        ..plan()
    };
    let authority = Authority::new("Site CA")?;
    let other = Authority::new("Nobody's CA")?;
    let ca_file = put(lab, "site-ca.pem", &authority.pem)?;
    let trust = Trust::Options(option("--ca-file", &ca_file));
    let site = site(lab, &plan, &ports, trust).await?;
    let good = authority.server(Fault::None)?;
    let bad = if known { &authority } else { &other }.server(fault)?;
    let _good = ImageServer::start_tls(lab, GOOD, good, site.files.clone()).await?;
    let servers = ImageServer::start_tls(lab, BAD, bad, site.files.clone()).await?;
    let mut guest = Guest::start_at(lab, &site.machine, "2026-11-22T00:00:00").await?;
    let line = guest
        .console("agent: FAILED install failed: ", BOOT)
        .await?;
    ensure_contains(&line.text, &[&format!("https://{HOST_V4}:{BAD}"), reason])?;
    ensure!(
        !line.text.contains("insecure") && !line.text.contains("trying again"),
        "it says: {}",
        line.text
    );
    let texts = ["ERROR agent: install failed:", reason, remedy];
    guest.shows(lab, "untrusted", &texts, BOOT).await?;
    // Wait longer than the few seconds after which a retry would come.
    tokio::time::sleep(Duration::from_secs(10)).await;
    for what in ["FAILED install failed", "no answer from"] {
        let lines = lab.journal.events().into_iter().filter(|event| {
            let is_console = event.source == Source::Console;
            is_console && event.text.contains(what) && event.text.contains(reason)
        });
        let lines: Vec<_> = lines.collect();
        ensure!(
            lines.len() <= 1,
            "expected it at most once, found {lines:?}"
        );
    }
    for name in [STREAM, CONFIG, IMAGE] {
        ensure!(
            servers.requests(name).is_empty(),
            "{name} was asked of a server that is not trusted"
        );
    }
    guest.cut_power().await?;
    ensure_untouched(&site.machine.disks[0].path)
}

#[test]
fn https_wrong_host_name_of_the_image_server() {
    host_test("https_wrong_host_name", async |lab| {
        let ports = Ports {
            image: BAD,
            ..ALL_GOOD
        };
        let reason = [
            "its certificate is for elsewhere.example.org, not for 192.0.2.1",
            "-> use a name or address in the URL that is in the certificate",
        ];
        refused(lab, ports, Fault::OtherHost, true, reason).await
    });
}

#[test]
#[ignore = "as https_unknown_authority"]
fn https_expired_certificate_of_the_config_server() {
    host_test("https_expired_certificate", async |lab| {
        let ports = Ports {
            config: BAD,
            ..ALL_GOOD
        };
        let reason = [
            "its certificate expired on 2025-12-31 00:00:00 UTC",
            "-> if the clock is wrong, set it in the firmware setup or give ipa-ntp-server=",
        ];
        refused(lab, ports, Fault::Expired, true, reason).await
    });
}

#[test]
fn https_unknown_authority_of_the_stream_server() {
    host_test("https_unknown_authority", async |lab| {
        let ports = Ports {
            stream: BAD,
            ..ALL_GOOD
        };
        let reason = [
            "signed by \"Nobody's CA\", which is not in /etc/landfall/ca.pem",
            "-> add that CA to the CA file",
        ];
        refused(lab, ports, Fault::None, false, reason).await
    });
}

/// A host that looks for a provisioning service on the port [`BAD`].
async fn site_of_service(lab: &Lab, options: &[String]) -> Result<Site> {
    let plan = Plan {
        network: Network::Given(STATIC),
        unattended: Some(format!("ipa-api-url={}", url(BAD, ""))),
        ..Plan::default()
    };
    let mut site = plan.site(lab).await?;
    site.machine.boot = Boot::Direct {
        kernel: artifacts::kernel()?,
        ramdisk: media::ramdisk(lab, options, &[]).await?,
        arguments: plan.kernel_arguments(),
    };
    Ok(site)
}

/// The certificate of Ironic is from an authority that is not in the ramdisk. The host
/// keeps looking, and the screen says what is missing.
#[test]
fn https_unknown_authority_of_the_service() {
    host_test("https_unknown_authority_of_the_service", async |lab| {
        let authority = Authority::new("Site CA")?;
        let public = put(lab, "bundle.pem", &Authority::new("Public CA")?.pem)?;
        let site = site_of_service(lab, &option("--ca-bundle", &public)).await?;
        let config = authority.server(Fault::None)?;
        let _service = ImageServer::start_tls(lab, BAD, config, Vec::new()).await?;
        let mut guest = site.power_on(lab).await?;
        guest.shows_example(lab, "wrong-authority", BOOT).await?;
        guest
            .shows(lab, "wrong-authority", &["\"Site CA\""], BOOT)
            .await?;
        guest.cut_power().await
    });
}

/// The hardware clock of the host is at 2025, and the certificate of Ironic is valid
/// from 2026. The agent cannot correct the clock, because the service has the same fault.
#[test]
fn https_with_a_wrong_clock_that_stays() {
    host_test("https_with_a_wrong_clock_that_stays", async |lab| {
        let authority = Authority::new("Site CA")?;
        let ca_file = put(lab, "site-ca.pem", &authority.pem)?;
        let site = site_of_service(lab, &option("--ca-file", &ca_file)).await?;
        let config = authority.server(Fault::None)?;
        let date = "Tue, 04 Mar 2025 05:06:07 GMT";
        let _service = ImageServer::start_tls_at(lab, BAD, config, date).await?;
        let mut guest = Guest::start_at(lab, &site.machine, "2025-03-04T05:06:07").await?;
        guest.shows_example(lab, "wrong-clock", BOOT).await?;
        let texts = [
            "valid from 2026-01-01 00:00:00 UTC, and this machine's clock says 2025-03-04 05:",
            // The clock in the title is the same.
            "2025-03-04 05:",
        ];
        guest.shows(lab, "wrong-clock", &texts, BOOT).await?;
        let line = guest
            .console("clock: warning: the Date header of", BOOT)
            .await?;
        let found = "expected a time from 2026 to 2099, found 2025-03-04 05:06:07 UTC";
        ensure_contains(&line.text, &[found])?;
        guest.cut_power().await
    });
}
