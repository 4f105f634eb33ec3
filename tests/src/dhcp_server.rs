//! A real dnsmasq on the lab's bridge: DHCPv4, and the way into iPXE.

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

/// A DHCP server at work until it is dropped.
pub struct DhcpServer {
    _process: Child,
}

impl DhcpServer {
    /// Starts to serve. `mac` always gets the lab's guest address; iPXE gets
    /// `boot_script`, the URL of its script.
    pub async fn start(lab: &Lab, mac: &str, boot_script: Option<&str>) -> Result<Self> {
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
            .arg(format!("--dhcp-host={mac},{GUEST_V4},node-by-dhcp"))
            .arg(format!("--dhcp-option=option:router,{HOST_V4}"));
        if let Some(script) = boot_script {
            // Option 175 is how iPXE says that it is iPXE; the NICs' option
            // ROMs of QEMU are.
            command
                .arg("--dhcp-match=set:ipxe,175")
                .arg(format!("--dhcp-boot=tag:ipxe,{script}"));
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
