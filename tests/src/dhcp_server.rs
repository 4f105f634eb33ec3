//! A real dnsmasq on the lab's bridge: DHCP, routers, names, and the way into
//! iPXE.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::journal::Source;
use crate::lab::{GUEST_V4, HOST_V4, Lab};
use crate::program;

/// dnsmasq says that it is ready in its first lines.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The host name that goes with the guest's lease.
pub const GIVEN_NAME: &str = "node-by-dhcp";

/// A DHCP server at work until it is dropped.
pub struct DhcpServer {
    _process: Child,
}

/// Where a server serves, and what it hands out there.
#[derive(Debug, Clone, Copy)]
pub struct Subnet {
    /// The bridge it listens on.
    pub bridge: &'static str,
    /// The address of the one host that it serves, in a network of 24 bits.
    pub guest: Ipv4Addr,
    /// The default gateway.
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

/// What DHCP tells a host that boots by network.
#[derive(Debug, Clone, Default)]
pub struct NetworkBoot {
    /// To iPXE: the URL of its script.
    pub ipxe_script: Option<String>,
    /// To UEFI firmware: a file, by TFTP.
    pub efi_file: Option<TftpFile>,
    /// To UEFI firmware that boots by HTTP: a URL.
    pub http_file: Option<String>,
    /// Where; the lab's own network otherwise.
    pub subnet: Subnet,
    /// T1 of every lease; the usual half of an hour otherwise.
    pub renew_seconds: Option<u32>,
}

/// A file on the TFTP server.
#[derive(Debug, Clone)]
pub struct TftpFile {
    /// The root of the server.
    pub root: PathBuf,
    /// The file's path below it.
    pub file: &'static str,
}

impl DhcpServer {
    /// Starts to serve. `mac` always gets the guest's address.
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
            // Option 175 is how iPXE says that it is iPXE, be it an option ROM
            // or a program that the firmware has loaded.
            "--dhcp-match=set:ipxe,175".to_owned(),
        ];
        if let Some(script) = &boot.ipxe_script {
            options.push(format!("--dhcp-boot=tag:ipxe,{script}"));
        }
        if let Some(TftpFile { root, file }) = &boot.efi_file {
            options.extend([
                // Client architecture 7: EFI x86-64 (RFC 4578 and its registry).
                "--dhcp-match=set:efi,option:client-arch,7".to_owned(),
                format!("--dhcp-boot=tag:efi,tag:!ipxe,{file}"),
                "--enable-tftp".to_owned(),
                format!("--tftp-root={}", root.display()),
            ]);
        }
        if let Some(url) = &boot.http_file {
            options.extend([
                // 16: the same by HTTP. The firmware wants its vendor class back.
                "--dhcp-match=set:http,option:client-arch,16".to_owned(),
                "--dhcp-option-force=tag:http,60,HTTPClient".to_owned(),
                format!("--dhcp-boot=tag:http,tag:!ipxe,{url}"),
            ]);
        }
        if let Some(seconds) = boot.renew_seconds {
            options.push(format!("--dhcp-option=option:T1,{seconds}"));
        }
        Self::on(lab, bridge, &options).await
    }

    /// Starts to serve what these options of dnsmasq say: DHCP, router
    /// advertisements, names.
    pub async fn with(lab: &Lab, options: &[impl AsRef<OsStr>]) -> Result<Self> {
        Self::on(lab, Subnet::default().bridge, options).await
    }

    async fn on(lab: &Lab, bridge: &str, options: &[impl AsRef<OsStr>]) -> Result<Self> {
        let mark = lab.journal.mark();
        let leases = lab.path(&format!("leases-{bridge}"));
        let mut command = program::bound_to_this_thread("dnsmasq");
        command
            // No files of the machine: no configuration, no pid file, no leases.
            .args(["--conf-file=/dev/null", "--pid-file"])
            .args(["--no-resolv", "--no-hosts"])
            .arg(format!("--dhcp-leasefile={}", leases.display()))
            // Beside staying in the foreground: keep all privileges. Whoever
            // drops one loses the parent death signal, too (prctl(2)).
            .arg("--no-daemon")
            .args(["--bind-interfaces", "--log-dhcp"])
            .arg(format!("--interface={bridge}"))
            // --no-ping: it would ask for the address for 3 s before the offer.
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
