//! Tests that secrets do not appear where others can read them. The deployment
//! gets a secret of every kind, loses its connection once and fails at the end,
//! so that the agent logs as much as possible.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use landfall_tests::conductor::script::Method;
use landfall_tests::config_drive::ConfigDrive;
use landfall_tests::image_server;
use landfall_tests::installation::{BOOT, DEPLOYMENT};
use landfall_tests::journal::Source;
use landfall_tests::lab::{GUEST_V4, HOST_V4, Lab};
use landfall_tests::site::{Deploy, META_DATA_NAME, Plan, Site};
use landfall_tests::syslog_server::SyslogServer;
use landfall_tests::vm::{Boot, Bus, Disk, Guest};
use landfall_tests::{artifacts, conductor, media, program, site};

use crate::host_test;

/// A part of every secret that this test chooses. Searching for the part also detects a
/// leak of only a part of a secret. The test searches for the agent token and the
/// config drive separately.
const TRACE: &str = "s3cret";

/// Runs in place of `/init` and copies `/run` and the kernel log to /dev/vdb, because
/// no console shows the files in `/run`. `exec` keeps init as PID 1.
const SPY: &str = r#"#!/spy/busybox sh
(
  until [ -b /dev/vdb ] && [ -d /run/landfall ]; do /spy/busybox sleep 1; done
  while :; do
    /spy/busybox dmesg > /spy/dmesg
    /spy/busybox tar -cf - run spy/dmesg 2> /dev/null | /spy/busybox dd of=/dev/vdb conv=fsync 2> /dev/null
    /spy/busybox sleep 3
  done
) &
exec /init
"#;

/// The pause after the failed deployment, long enough for the spy to copy the final
/// state.
const SPY_PAUSE: Duration = Duration::from_secs(12);

/// A host with the spy in its ramdisk, and a second, small disk that receives the spy's
/// copies.
async fn spied_on(lab: &Lab, plan: &Plan) -> Result<Site> {
    let mut site = plan.site(lab).await?;
    let busybox = std::fs::read("/bin/busybox").context("package busybox-static")?;
    let spy = [
        ("spy/busybox", busybox),
        ("spy/init", SPY.as_bytes().to_vec()),
    ];
    site.machine.boot = Boot::Direct {
        kernel: artifacts::kernel()?,
        ramdisk: media::ramdisk(lab, &[], &spy).await?,
        arguments: plan.kernel_arguments() + " rdinit=/spy/init",
    };
    let seen = lab.path("seen.raw");
    std::fs::File::create(&seen)?.set_len(64 << 20)?;
    site.machine.disks.push(Disk {
        path: seen,
        bus: Bus::VirtioBlk,
        unplugged: false,
        fault: None,
    });
    Ok(site)
}

/// The password in ipa-api-url contains no comma: a comma separates the URLs of
/// that argument.
fn plan(deploy: Deploy) -> Plan {
    let api = format!("http://user:s3cret'Api@{HOST_V4}:{}", conductor::PORT);
    Plan {
        deploy,
        unattended: Some(format!(
            "ipa-api-url={api} ipa-inspection-callback-url={api}/v1/continue_inspection \
             HTTPS_PROXY=http://user:s3cret,Proxy@{HOST_V4}:3128 ipa-debug=1 \
             landfall.syslog={}",
            SyslogServer::url()
        )),
        ..Plan::default()
    }
}

/// Unpacks the spy's archive. Returns the path and mode of each file that contains
/// [`TRACE`].
async fn holders(lab: &Lab, archive: &Path) -> Result<BTreeMap<String, u32>> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = lab.path("seen");
    std::fs::create_dir(&folder)?;
    let (archive, to) = (archive.display().to_string(), folder.display().to_string());
    program::run("tar", &["-C", &to, "-pxf", &archive, "--ignore-zeros"])
        .await
        .ok();
    let mut holders = BTreeMap::new();
    let mut folders = vec![folder.clone()];
    let mut files = 0;
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files += 1;
                let content = std::fs::read(entry.path())?;
                let text = String::from_utf8_lossy(&content);
                let path = entry.path();
                let is_kmsg = path.ends_with("spy/dmesg");
                // The kernel itself prints its command line and the environment derived
                // from it. So only the agent's lines count here, which contain its
                // name.
                let mut lines = text
                    .lines()
                    .filter(|line| !is_kmsg || line.contains("landfall "));
                if lines.any(has_secret) {
                    let mode = entry.metadata()?.permissions().mode() & 0o777;
                    let path = path.strip_prefix(&folder)?.display().to_string();
                    holders.insert(path, mode);
                }
            }
        }
    }
    ensure!(files > 4, "the spy has seen {files} files only");
    ensure!(
        folder.join("run/landfall/network.json").exists() && folder.join("spy/dmesg").exists(),
        "the spy has not seen /run"
    );
    Ok(holders)
}

/// Whether the kernel itself prints its command line in this line, before the agent
/// could mask anything.
fn is_of_kernel(line: &str) -> bool {
    line.contains("ommand line: ") || line.contains("Unknown kernel command line parameters")
}

fn has_secret(text: &str) -> bool {
    text.contains(TRACE)
}

/// The status pages, by their paths.
async fn pages() -> Result<Vec<(&'static str, String)>> {
    // reqwest needs a crypto provider. An error means that one is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_danger_accept_invalid_certs(true)
        .build()?;
    let mut pages = Vec::new();
    for path in ["/", "/status.json", "/metrics", "/log.txt"] {
        let url = format!("https://{GUEST_V4}:9999{path}");
        let answer = client.get(url).header("Accept", "text/html").send().await?;
        pages.push((path, answer.error_for_status()?.text().await?));
    }
    Ok(pages)
}

/// The rows of the status screen, then the same text without line breaks, because a
/// line break may be within a secret. The kernel messages above the status screen are
/// left out: they contain the command line.
fn agent_screen(memory: &str) -> Result<String> {
    let start = memory.rfind(" Landfall ").context("no status screen")?;
    let characters: Vec<char> = memory[start..].chars().take(80 * 25).collect();
    let rows: Vec<String> = { characters.chunks(80) }
        .map(|row| row.iter().collect::<String>().trim().to_owned())
        .collect();
    Ok(format!("{}\n{}", rows.join("\n"), rows.concat()))
}

/// What others can see of the host: its status pages, its screen and its syslog. The
/// function checks that each source has content: a metric, or a text about the failed
/// deployment.
async fn seen_by_others(
    lab: &Lab,
    guest: &mut Guest,
    syslog: &SyslogServer,
) -> Result<Vec<(&'static str, String)>> {
    let mut seen = pages().await?;
    let picture = lab.log_path("screen").with_extension("png");
    seen.push((
        "the screen",
        agent_screen(&guest.vga_text(&picture).await?)?,
    ));
    let lines = syslog.lines()?;
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    seen.push(("syslog", texts.join("\n")));
    for (what, text) in &seen {
        let expected = if *what == "/metrics" {
            "\nlandfall_"
        } else {
            "checksum"
        };
        ensure!(
            text.contains(expected),
            "{what} has no {expected:?}: {text}"
        );
    }
    Ok(seen)
}

async fn stay_secret(lab: &Lab, deploy: Deploy) -> Result<()> {
    let plan = plan(deploy);
    let syslog = SyslogServer::start(lab).await?;
    let mut site = spied_on(lab, &plan).await?;
    let name = plan.packing.file_name();
    let half = site.files[0].content.len() / 2;
    site.files[0].behaviour.dies_after = Some(half);
    let image = format!(
        "http://user:s3cret'Image@{HOST_V4}:{}/{name}?a=1,sig=s3cretQuery",
        image_server::PORT
    );
    site.script.image.url = image;
    site.script.image.hash = "0123456789abcdef".repeat(4);
    site.script.image.authorization = Some("Bearer s3cretHeader".to_owned());
    let config = site.proof.config().replace("data:,", "data:,s3cretConfig");
    let drive = ConfigDrive::with_user_data(lab, &config).await?;
    let encoded = drive.encoded()?;
    site.script.method = match deploy {
        Deploy::WriteImage => Method::WriteImage {
            config_drive: Some(encoded.clone()),
        },
        Deploy::InstallCoreos => Method::InstallCoreos {
            meta_data: site::meta_data(),
            ignition: config,
        },
    };
    let services = site.serve(lab).await?;
    let mut guest = Guest::start(lab, &site.machine).await?;
    let last_error = services.conductor.failed(BOOT + DEPLOYMENT).await?;
    ensure!(last_error.contains("***"), "last_error: {last_error}");
    tokio::time::sleep(SPY_PAUSE).await;
    let mut seen = seen_by_others(lab, &mut guest, &syslog).await?;
    guest.cut_power().await?;
    // Ironic shows the status message of the last heartbeat to everybody who may see
    // the node.
    let messages = services.conductor.status_messages();
    ensure!(
        messages.iter().any(|text| text.contains("last error: ")),
        "no heartbeat has the last error: {messages:?}"
    );
    seen.push(("the heartbeats", messages.join("\n")));

    let token = services.conductor.token().context("no token was given")?;
    let drive_text = encoded[encoded.len() / 2..][..60].to_owned();
    let is_secret =
        |text: &str| has_secret(text) || text.contains(&token) || text.contains(&drive_text);
    ensure!(!is_secret(&last_error), "last_error: {last_error}");
    for (what, text) in &seen {
        let secret = text
            .lines()
            .find(|&line| is_secret(line) && !is_of_kernel(line));
        ensure!(secret.is_none(), "{what}: {secret:?}");
    }
    let lines: Vec<_> = lab
        .journal
        .events()
        .into_iter()
        .filter(|event| event.source == Source::Console && !is_of_kernel(&event.text))
        .collect();
    ensure!(
        lines
            .iter()
            .any(|line| line.text.contains("connection lost")),
        "nothing was said of the broken transfer"
    );
    for line in &lines {
        ensure!(!is_secret(&line.text), "the console: {}", line.text);
    }
    let inventory = services.conductor.inventory().context("no inventory")?;
    let logs = services.conductor.logs().context("no log archive")?;
    let of_inspection = inventory["logs"].as_str().unwrap_or_default().to_owned();
    ensure!(!is_secret(&inventory.to_string()), "the inventory has one");
    for (what, packed) in [("logs", logs), ("logs of the inspection", of_inspection)] {
        let packed = BASE64_STANDARD.decode(packed)?;
        let mut text = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        ensure!(
            text.contains(META_DATA_NAME) || text.len() > 10_000,
            "{what}: too short"
        );
        for line in text.lines() {
            ensure!(!is_secret(line), "{what}: {line}");
        }
    }
    // Only the files with the state that the agent needs after a crash may contain
    // secrets, and only root may read them.
    let holders = holders(lab, &site.machine.disks[1].path).await?;
    for (path, mode) in &holders {
        ensure!(
            path.starts_with("run/landfall/") && *mode == 0o600,
            "a secret is in {path} (mode {mode:o})"
        );
    }
    Ok(())
}

#[test]
fn secrets_of_write_image_are_not_seen() {
    host_test("secrets_of_write_image", async |lab| {
        stay_secret(lab, Deploy::WriteImage).await
    });
}

#[test]
fn secrets_of_install_coreos_are_not_seen() {
    host_test("secrets_of_install_coreos", async |lab| {
        stay_secret(lab, Deploy::InstallCoreos).await
    });
}
