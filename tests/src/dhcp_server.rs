//! A real dnsmasq on the lab's bridge: DHCPv4, and the way into iPXE.

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

/// What DHCP tells a host that boots by network.
#[derive(Debug, Clone)]
pub enum BootFile {
    /// To iPXE: the URL of its script.
    Ipxe(String),
    /// To UEFI firmware: a file, by TFTP, below this folder.
    Tftp {
        /// The root of the TFTP server.
        root: PathBuf,
        /// The file's path below it.
        file: &'static str,
    },
}

impl DhcpServer {
    /// Starts to serve. `mac` always gets the lab's guest address.
    pub async fn start(lab: &Lab, mac: &str, boot_file: Option<&BootFile>) -> Result<Self> {
        let mark = lab.journal.mark();
        let mut command = program::bound_to_this_thread("dnsmasq");
        command
            // No files of the machine: no configuration, no pid file, no leases.
            .args(["--conf-file=/dev/null", "--pid-file"])
            .arg(format!("--dhcp-leasefile={}", lab.path("leases").display()))
            // Beside staying in the foreground: keep all privileges. Whoever
            // drops one loses the parent death signal, too (prctl(2)).
            .arg("--no-daemon")
            .args(["--port=0", "--interface=br0", "--bind-interfaces"])
            // --no-ping: it would ask for the address for 3 s before the offer.
            .args(["--dhcp-authoritative", "--no-ping"])
            .arg(format!("--dhcp-range={GUEST_V4},static,255.255.255.0,1h"))
            .arg(format!("--dhcp-host={mac},{GUEST_V4},{GIVEN_NAME}"))
            .arg(format!("--dhcp-option=option:router,{HOST_V4}"));
        match boot_file {
            None => {}
            // Option 175 is how iPXE says that it is iPXE; the NICs' option
            // ROMs of QEMU are.
            Some(BootFile::Ipxe(script)) => {
                command
                    .arg("--dhcp-match=set:ipxe,175")
                    .arg(format!("--dhcp-boot=tag:ipxe,{script}"));
            }
            // Client architecture 7: EFI x86-64 (RFC 4578 and its registry).
            Some(BootFile::Tftp { root, file }) => {
                command
                    .arg("--dhcp-match=set:efi,option:client-arch,7")
                    .arg(format!("--dhcp-boot=tag:efi,{file}"))
                    .arg("--enable-tftp")
                    .arg(format!("--tftp-root={}", root.display()));
            }
        }
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
            .wait_for("dnsmasq's DHCP", mark, START_LIMIT, |event| {
                event.source == Source::Dhcp && event.text.contains("DHCP, static leases")
            })
            .await?;
        Ok(Self { _process: process })
    }
}
