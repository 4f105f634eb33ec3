//! A real dnsmasq on the lab's bridge: DHCP, router advertisements, DNS, and
//! network boot.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use landfall_initramfs::arch::Arch;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::artifacts;
use crate::journal::Source;
use crate::lab::{GUEST_V4, HOST_V4, Lab};
use crate::program;

/// How long the test waits for the first lines of dnsmasq, which report that it
/// is ready.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The host name in the guest's lease.
pub const GIVEN_NAME: &str = "node-by-dhcp";

/// A DHCP server that runs until it is dropped.
pub struct DhcpServer {
    _process: Child,
}

/// The network that a server serves, and the addresses that it hands out.
#[derive(Debug, Clone, Copy)]
pub struct Subnet {
    /// The bridge that the server listens on.
    pub bridge: &'static str,
    /// The address of the only host that the server serves, in a /24 network.
    pub guest: Ipv4Addr,
    pub router: Ipv4Addr,
}

impl Default for Subnet {
    fn default() -> Self {
        Self {
            bridge: "br0",
            guest: GUEST_V4,
            router: HOST_V4,
        }
    }
}

/// The DHCP options for a host that boots from the network.
#[derive(Debug, Clone, Default)]
pub struct NetworkBoot {
    /// For iPXE: the URL of its script.
    pub ipxe_script: Option<String>,
    /// For UEFI firmware that boots by PXE: a file on the TFTP server.
    pub efi_file: Option<TftpFile>,
    /// For UEFI firmware that boots by HTTP: a URL.
    pub http_file: Option<String>,
    /// The served network. The default is the lab's own network.
    pub subnet: Subnet,
    /// T1 of every lease in seconds. The default is dnsmasq's half an hour.
    pub renew_seconds: Option<u32>,
}

#[derive(Debug, Clone)]
pub struct TftpFile {
    /// The root of the TFTP server.
    pub root: PathBuf,
    /// The path below the root.
    pub file: String,
}

impl DhcpServer {
    /// Starts a server that always gives the guest's address to `mac`.
    pub async fn start(lab: &Lab, mac: &str, boot: &NetworkBoot) -> Result<Self> {
        let Subnet {
            bridge,
            guest,
            router,
        } = boot.subnet;
        let mut options = vec![
            "--port=0".to_owned(),
            format!("--dhcp-range={guest},static,255.255.255.0,1h"),
            format!("--dhcp-host={mac},{guest},{GIVEN_NAME}"),
            format!("--dhcp-option=option:router,{router}"),
            // iPXE sends option 175, both from an option ROM and when the firmware loaded
            // it.
            "--dhcp-match=set:ipxe,175".to_owned(),
        ];
        if let Some(script) = &boot.ipxe_script {
            options.push(format!("--dhcp-boot=tag:ipxe,{script}"));
        }
        if let Some(TftpFile { root, file }) = &boot.efi_file {
            // Client architecture 7: EFI x86-64, 11: EFI aarch64 (RFC 4578 and its registry).
            let client = match artifacts::arch() {
                Arch::X86_64 => 7,
                Arch::Aarch64 => 11,
            };
            options.extend([
                format!("--dhcp-match=set:efi,option:client-arch,{client}"),
                format!("--dhcp-boot=tag:efi,tag:!ipxe,{file}"),
                "--enable-tftp".to_owned(),
                format!("--tftp-root={}", root.display()),
            ]);
        }
        if let Some(url) = &boot.http_file {
            // Client architecture 16: EFI x86-64 over HTTP, 19: EFI aarch64 over HTTP.
            let client = match artifacts::arch() {
                Arch::X86_64 => 16,
                Arch::Aarch64 => 19,
            };
            options.extend([
                format!("--dhcp-match=set:http,option:client-arch,{client}"),
                // The firmware requires its vendor class in the answer.
                "--dhcp-option-force=tag:http,60,HTTPClient".to_owned(),
                format!("--dhcp-boot=tag:http,tag:!ipxe,{url}"),
            ]);
        }
        if let Some(seconds) = boot.renew_seconds {
            options.push(format!("--dhcp-option=option:T1,{seconds}"));
        }
        Self::on(lab, bridge, &options).await
    }

    /// Starts dnsmasq with these options, which define DHCP, router advertisements
    /// and DNS.
    pub async fn with(lab: &Lab, options: &[impl AsRef<OsStr>]) -> Result<Self> {
        Self::on(lab, Subnet::default().bridge, options).await
    }

    async fn on(lab: &Lab, bridge: &str, options: &[impl AsRef<OsStr>]) -> Result<Self> {
        let mark = lab.journal.mark();
        let leases = lab.path(&format!("leases-{bridge}"));
        let mut command = program::bound_to_this_thread("dnsmasq");
        command
            // Use no files of the machine: no configuration, no pid file, no
            // leases.
            .args(["--conf-file=/dev/null", "--pid-file"])
            .args(["--no-resolv", "--no-hosts"])
            .arg(format!("--dhcp-leasefile={}", leases.display()))
            // Stay in the foreground, and keep all privileges: a process that drops
            // privileges loses its parent-death signal too (prctl(2)).
            .arg("--no-daemon")
            .args(["--bind-interfaces", "--log-dhcp"])
            .arg(format!("--interface={bridge}"))
            // Without --no-ping dnsmasq pings the address for 3 s before it offers
            // it.
            .args(["--dhcp-authoritative", "--no-ping"])
            .args(options);
        let mut process = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting dnsmasq (package dnsmasq-base)")?;
        let stderr = process.stderr.take().context("no pipe from dnsmasq")?;
        let journal = lab.journal.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                journal.record(Source::Dhcp, line);
            }
        });
        lab.journal
            .wait_for("dnsmasq", mark, START_LIMIT, |event| {
                event.source == Source::Dhcp && event.text.contains("started, version")
            })
            .await?;
        Ok(Self { _process: process })
    }
}
