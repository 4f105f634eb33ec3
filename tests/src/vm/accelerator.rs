//! KVM or emulation.
//!
//! That `/dev/kvm` exists says little: in some containers and nested machines
//! it opens, and the first guest instruction never returns. So a guest of two
//! instructions is run for a few seconds at most.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::OnceCell;

use crate::program;

/// A boot sector that writes 0x21 to port 0xf4 (`mov al,21h; out f4h,al; hlt`).
const PROBE_CODE: [u8; 5] = [0xb0, 0x21, 0xe6, 0xf4, 0xf4];

/// isa-debug-exit ends QEMU with `value << 1 | 1`.
const PROBE_EXIT: i32 = 0x21 << 1 | 1;

/// A working KVM needs a fraction of a second for SeaBIOS and the sector.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Whether a guest really runs under KVM. Asked once per process.
pub(super) async fn kvm_works() -> Result<bool> {
    static WORKS: OnceCell<bool> = OnceCell::const_new();
    WORKS.get_or_try_init(probe).await.copied()
}

async fn probe() -> Result<bool> {
    if !std::path::Path::new("/dev/kvm").exists() {
        return Ok(false);
    }
    let mut sector = [0u8; 512];
    sector[..PROBE_CODE.len()].copy_from_slice(&PROBE_CODE);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    let disk = tempfile::NamedTempFile::new()?;
    std::fs::write(disk.path(), sector)?;
    let mut qemu = program::bound_to_this_thread("qemu-system-x86_64")
        .args([
            "-accel",
            "kvm",
            "-cpu",
            "host",
            "-m",
            "64",
            "-nodefaults",
            "-display",
            "none",
        ])
        .args([
            "-device",
            "isa-debug-exit,iobase=0xf4,iosize=0x04",
            "-drive",
        ])
        .arg(format!("file={},format=raw,if=ide", disk.path().display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting qemu-system-x86_64")?;
    match tokio::time::timeout(PROBE_LIMIT, qemu.wait()).await {
        Ok(status) => Ok(status?.code() == Some(PROBE_EXIT)),
        Err(_) => {
            qemu.kill().await?;
            Ok(false)
        }
    }
}
