//! Boots hosts from the image service, the real `landfall-image serve` with the hosts
//! of an install-config.yaml: one by iPXE under a BIOS, and one from its ISO under
//! UEFI. image-build/tests/command_line/serve.rs tests the answers of the service
//! without a host.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use landfall_tests::dhcp_server::{DhcpServer, NetworkBoot};
use landfall_tests::embedded_hosts::install_config;
use landfall_tests::image_server::ImageServer;
use landfall_tests::installation::BOOT;
use landfall_tests::journal::Source;
use landfall_tests::lab::{HOST_V4, Lab};
use landfall_tests::vm::{Boot, Firmware, Guest};
use landfall_tests::{artifacts, media, program};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::host_test;
use crate::three_hosts::{cases, ensure_blank, machine, plan};
use crate::unattended::config;

const PORT: u16 = 8380;
/// From the start of the service until it serves, which takes a second.
const START_LIMIT: Duration = Duration::from_secs(60);
/// In bytes: the size of the ranges that a BMC requests.
const RANGE: usize = 1 << 20;

/// The factor for time limits: here two hosts share the processors that one host has in
/// other tests.
const SLOWER: u32 = 2;

/// A running `landfall-image serve`, which ends when this is dropped.
struct ImageService {
    _process: Child,
    /// Its standard output: the name of each host, and the URL of its ISO.
    urls: Lines<BufReader<ChildStdout>>,
    client: reqwest::Client,
}

fn path(path: &str) -> String {
    format!("http://{HOST_V4}:{PORT}{path}")
}

impl ImageService {
    /// `hosts` are options of the builder that name three hosts.
    async fn start(lab: &Lab, iso: &Path, hosts: &[String]) -> Result<Self> {
        // reqwest needs a crypto provider even for plain HTTP. An error means that a
        // provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mark = lab.journal.mark();
        let listen = format!("{HOST_V4}:{PORT}");
        let mut process = program::bound_to_this_thread(artifacts::builder()?)
            .args(["serve", "--listen", &listen, "--public-url", &path("")])
            .arg("--iso")
            .arg(iso)
            .args(hosts)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting landfall-image serve")?;
        let stdout = process.stdout.take().context("no pipe from the service")?;
        let stderr = process.stderr.take().context("no pipe from the service")?;
        let journal = lab.journal.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                journal.record(Source::Images, line);
            }
        });
        lab.journal
            .wait_for("the image service", mark, START_LIMIT, |event| {
                event.source == Source::Images && event.text.contains("serving 3 hosts")
            })
            .await?;
        Ok(Self {
            _process: process,
            urls: BufReader::new(stdout).lines(),
            client: reqwest::Client::builder().no_proxy().build()?,
        })
    }

    /// The URL of the ISO of this host, `/ID/NAME.iso`.
    async fn iso_of(&mut self, host: &str) -> Result<String> {
        let start = format!("{host} ");
        loop {
            let line = self.urls.next_line().await?;
            let line = line.with_context(|| format!("the service prints no URL of {host}"))?;
            if let Some(url) = line.strip_prefix(&start) {
                return Ok(url.to_owned());
            }
        }
    }

    /// Reads the whole file in ranges, as a BMC reads a medium.
    async fn download(&self, url: &str, to: &Path) -> Result<()> {
        let head = self.client.head(url).send().await?.error_for_status()?;
        let size = head.headers().get("content-length");
        let size: usize = size.context("no Content-Length")?.to_str()?.parse()?;
        let mut content = Vec::with_capacity(size);
        while content.len() < size {
            let first = content.len();
            let end = (first + RANGE).min(size);
            let range = format!("bytes={first}-{}", end - 1);
            let request = self.client.get(url).header("range", &range);
            let part = request.send().await?.error_for_status()?.bytes().await?;
            ensure!(
                part.len() == end - first,
                "{range}: found {} bytes",
                part.len()
            );
            content.extend_from_slice(&part);
        }
        Ok(std::fs::write(to, content)?)
    }

    /// Fails unless clients have read every byte of this file. The kernel is the same for
    /// all hosts: its `host` is empty.
    async fn ensure_read(&self, host: &str, file: &str) -> Result<()> {
        let answer = self.client.get(path("/status.json")).send().await?;
        let status: Value = answer.error_for_status()?.json().await?;
        let reads = status["reads"].as_array().context("no list of reads")?;
        let is_complete = { reads.iter() }
            .find(|read| read["host"] == host && read["file"] == file)
            .is_some_and(|read| read["complete"] == true);
        ensure!(is_complete, "{file} of '{host}' is not complete: {reads:?}");
        Ok(())
    }
}

/// In three_hosts.rs, the hosts of an install-config.yaml share one ISO. Here each host
/// gets its own ISO, which contains nothing about the other hosts.
#[test]
fn hosts_of_the_image_service() {
    host_test("hosts_of_the_image_service", async |lab| {
        let plan = plan();
        let mut site = plan.site(lab).await?;
        // The agent chooses the disk, rejects this config, and writes nothing.
        site.files.push(config("no JSON"));
        let _images = ImageServer::start(lab, site.files.clone()).await?;
        let cases = cases();
        let hosts = install_config(lab, cases.iter().map(|case| &case.host))?;
        let base = media::iso(lab, &plan.kernel_arguments(), &[]).await?;
        let mut service = ImageService::start(lab, &base, &hosts).await?;
        let [by_ipxe, by_iso, _] = &cases;

        let script = path(&format!("/{}.ipxe", by_ipxe.host.name));
        let network_boot = NetworkBoot {
            ipxe_script: Some(script),
            ..NetworkBoot::default()
        };
        let _dhcp = DhcpServer::start(lab, by_ipxe.host.mac, &network_boot).await?;
        let first = machine(lab, &site.machine, 0, by_ipxe, Boot::IpxeRom).await?;

        let medium = lab.path("medium.iso");
        let iso = service.iso_of(by_iso.host.name).await?;
        service.download(&iso, &medium).await?;
        let mut second = machine(lab, &site.machine, 1, by_iso, Boot::Iso(medium)).await?;
        second.firmware = Firmware::Uefi;

        let guests = [
            (by_ipxe, &first, Guest::start_host(lab, &first, 0).await?),
            (by_iso, &second, Guest::start_host(lab, &second, 1).await?),
        ];
        for (case, machine, guest) in guests {
            for text in case.lines("") {
                guest.console(&text, SLOWER * BOOT).await?;
            }
            let rejected = "agent: FAILED install failed: ";
            guest.console(rejected, SLOWER * BOOT).await?;
            guest.cut_power().await?;
            machine.disks.iter().try_for_each(ensure_blank)?;
        }
        for (host, file) in [
            (by_ipxe.host.name, "ipxe"),
            ("", "kernel"),
            (by_ipxe.host.name, "initramfs"),
            (by_iso.host.name, "iso"),
        ] {
            service.ensure_read(host, file).await?;
        }
        Ok(())
    });
}
