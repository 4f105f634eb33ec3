//! Chooses between KVM and emulation.
//!
//! The existence of `/dev/kvm` proves little. In some containers and nested machines
//! the first guest instruction never returns. In others SeaBIOS runs, and the guest
//! hangs when it leaves real mode: OVMF and Linux print nothing. So two guests have to
//! end by themselves before KVM is used: a boot sector of three instructions, which
//! fails quickly, and the kernel of the tests.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::{artifacts, program};

/// A boot sector that writes 0x21 to port 0xf4 (`mov al,21h; out f4h,al; hlt`).
const PROBE_CODE: [u8; 5] = [0xb0, 0x21, 0xe6, 0xf4, 0xf4];

/// The exit code of QEMU after the boot sector's write: the device isa-debug-exit ends
/// QEMU with `value << 1 | 1`.
const PROBE_EXIT: i32 = 0x21 << 1 | 1;

/// The time limit of the boot sector. A working KVM takes a fraction of a
/// second for SeaBIOS and the sector.
const SECTOR_LIMIT: Duration = Duration::from_secs(5);

/// The time limit of the kernel. A working KVM takes about 2 s until the kernel
/// panics; emulation takes 3 s.
const KERNEL_LIMIT: Duration = Duration::from_secs(15);

/// Whether a guest really runs under KVM. The probe runs once per process.
pub(super) async fn kvm_works() -> Result<bool> {
    static WORKS: OnceCell<bool> = OnceCell::const_new();
    WORKS
        .get_or_try_init(async || {
            let exists = std::path::Path::new("/dev/kvm").exists();
            Ok(exists && runs_a_boot_sector().await? && runs_a_kernel().await?)
        })
        .await
        .copied()
}

async fn runs_a_boot_sector() -> Result<bool> {
    let mut sector = [0u8; 512];
    sector[..PROBE_CODE.len()].copy_from_slice(&PROBE_CODE);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    let disk = tempfile::NamedTempFile::new()?;
    std::fs::write(disk.path(), sector)?;
    let mut qemu = qemu();
    qemu.args([
        "-m",
        "64",
        "-device",
        "isa-debug-exit,iobase=0xf4,iosize=0x04",
    ]);
    qemu.arg("-drive");
    qemu.arg(format!("file={},format=raw,if=ide", disk.path().display()));
    Ok(end_of(qemu, SECTOR_LIMIT).await? == Some(PROBE_EXIT))
}

/// Without a root file system the kernel panics, reboots at once, and QEMU ends.
async fn runs_a_kernel() -> Result<bool> {
    let mut qemu = qemu();
    qemu.args(["-m", "256", "-smp", "2", "-no-reboot"]);
    qemu.args(["-append", "panic=-1", "-kernel"]);
    qemu.arg(artifacts::kernel()?);
    Ok(end_of(qemu, KERNEL_LIMIT).await? == Some(0))
}

fn qemu() -> Command {
    let mut qemu = program::bound_to_this_thread("qemu-system-x86_64");
    qemu.args(["-accel", "kvm", "-cpu", "host", "-nodefaults"]);
    qemu.args(["-display", "none"]);
    qemu
}

/// Waits for the end of QEMU and returns its exit code. Returns `None` after a signal,
/// or if QEMU did not end within `limit`.
async fn end_of(mut qemu: Command, limit: Duration) -> Result<Option<i32>> {
    let mut qemu = qemu
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting qemu-system-x86_64")?;
    match tokio::time::timeout(limit, qemu.wait()).await {
        Ok(status) => Ok(status?.code()),
        Err(_) => {
            qemu.kill().await?;
            Ok(None)
        }
    }
}
