//! An iSCSI target in user space (tgtd) with its disks, on the host's address.

use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::process::{Child, Command};

use crate::lab::HOST_V4;
use crate::program;

/// The name of the target.
pub const TARGET: &str = "iqn.2003-01.org.example:disk";
/// The LUN of the first disk. tgtd has a controller as LUN 0.
pub const LUN: u8 = 1;
pub const PORT: u16 = 3260;
/// A second port on which the target listens.
pub const SECOND_PORT: u16 = 3261;

/// A running tgtd. It is killed when this value is dropped.
pub struct IscsiTarget {
    process: Child,
    control: String,
    /// The raw files of the disks, with their LUNs.
    disks: Vec<(u8, PathBuf)>,
    chap: Option<(String, String)>,
}

impl Drop for IscsiTarget {
    fn drop(&mut self) {
        for suffix in ["", ".lock"] {
            let _ = std::fs::remove_file(format!("/var/run/tgtd/socket.{}{suffix}", self.control));
        }
    }
}

impl IscsiTarget {
    /// Offers the raw file `disk` as [`LUN`]. If `chap` is given, only clients that authenticate
    /// with it get access.
    pub async fn start(disk: &Path, chap: Option<(&str, &str)>) -> Result<Self> {
        /// The control sockets are files, which a network namespace does not separate.
        /// So each target of this machine gets a control port of its own.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = process::id() * 16 + STARTED.fetch_add(1, Ordering::Relaxed);
        let control = (number % 0x8000).to_string();
        let target = Self {
            process: daemon(&control)?,
            control,
            disks: vec![(LUN, disk.to_owned())],
            chap: chap.map(|(name, secret)| (name.to_owned(), secret.to_owned())),
        };
        target.set_up().await?;
        Ok(target)
    }

    /// Offers the raw file `disk` as a further LUN.
    pub async fn add(&mut self, lun: u8, disk: &Path) -> Result<()> {
        self.disks.push((lun, disk.to_owned()));
        self.must(&new_disk(lun, disk)).await
    }

    /// Kills tgtd in the middle of its work, and starts it again after `pause`.
    pub async fn crash_for(&mut self, pause: Duration) -> Result<()> {
        self.process.kill().await?;
        tokio::time::sleep(pause).await;
        self.process = daemon(&self.control)?;
        self.set_up().await
    }

    async fn set_up(&self) -> Result<()> {
        const WAIT: Duration = Duration::from_millis(50);
        let mut looks = 0;
        while !self.order("--op show --mode target").await? {
            looks += 1;
            ensure!(looks < 200, "tgtd does not answer");
            tokio::time::sleep(WAIT).await;
        }
        let mut orders = vec![
            format!("--op new --mode target --tid 1 --targetname {TARGET}"),
            "--op bind --mode target --tid 1 --initiator-address ALL".to_owned(),
        ];
        orders.extend(self.disks.iter().map(|(lun, disk)| new_disk(*lun, disk)));
        if let Some((name, secret)) = &self.chap {
            orders.push(format!(
                "--op new --mode account --user {name} --password {secret}"
            ));
            orders.push(format!("--op bind --mode account --tid 1 --user {name}"));
        }
        for order in orders {
            self.must(&order).await?;
        }
        Ok(())
    }

    async fn must(&self, order: &str) -> Result<()> {
        ensure!(self.order(order).await?, "tgtadm {order}");
        Ok(())
    }

    async fn order(&self, order: &str) -> Result<bool> {
        let status = Command::new("tgtadm")
            .args(["--control-port", &self.control, "--lld", "iscsi"])
            .args(order.split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        Ok(status
            .await
            .context("starting tgtadm (package tgt)")?
            .success())
    }
}

/// The arguments of tgtadm that offer this disk.
fn new_disk(lun: u8, disk: &Path) -> String {
    let disk = disk.display();
    format!("--op new --mode logicalunit --tid 1 --lun {lun} --backing-store {disk}")
}

fn daemon(control: &str) -> Result<Child> {
    program::bound_to_this_thread("tgtd")
        .args(["--foreground", "--control-port", control, "--iscsi"])
        .arg(format!(
            "portal={HOST_V4}:{PORT},portal={HOST_V4}:{SECOND_PORT}"
        ))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting tgtd (package tgt)")
}
