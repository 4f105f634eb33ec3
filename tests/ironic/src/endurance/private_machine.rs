//! Turns a thread into a machine: with its own network, host name, disks and settings.
//!
//! The thread and the programs that it starts see one NIC and one disk. The root file
//! system of the real machine is read-only for them, and they have no device nodes of
//! its disks. The thread starts the programs without the capabilities in [`TAKEN`], so
//! that they cannot change other parts of the real machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use super::clock::ON_MACHINE;
use super::disk::Disk;

/// The argument of setpriv(1) that removes capabilities which an agent in a ramdisk
/// has: making device nodes, setting the clock, rebooting, loading modules, and I/O
/// ports.
pub const TAKEN: &str = "-mknod,-sys_time,-sys_boot,-sys_module,-sys_rawio";

/// The file that holds the kernel command line of the machine.
pub const COMMAND_LINE: &str = "/dev/.cmdline";

/// The agent's program.
pub const AGENT: &str = "/dev/.landfall-agent";

/// The file in place of the kernel log. It contains what the agent logs.
pub const KERNEL_LOG: &str = "/dev/kmsg";

const NONE: Option<&Path> = None;

/// Gives the calling thread the namespaces and mounts of a machine.
pub(super) fn enter(host_name: &str, agent: &Path, clock: &Path, disk: &Disk) -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS)
        .context("making the namespaces of a machine")?;
    nix::unistd::sethostname(host_name)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)
        .context("making the mounts private")?;
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    mount(NONE, "/", NONE, read_only, NONE).context("making the root read-only")?;
    tmpfs("/dev")?;
    fs::write(AGENT, "")?;
    // Bind-mount the program first: one of the tmpfs below may cover its folder.
    bind(&agent.display().to_string(), AGENT)?;
    fs::write(ON_MACHINE, "")?;
    bind(&clock.display().to_string(), ON_MACHINE)?;
    for target in ["/etc", "/tmp"] {
        tmpfs(target)?;
    }
    devices(disk)?;
    sysfs(disk)?;
    proc()?;
    tmpfs("/run")
}

/// Prepares a boot: an empty /run, as after a power cycle, with the mark that init
/// leaves in the ramdisk, and the kernel's command line.
pub(super) fn prepare_boot(command_line: &str) -> Result<()> {
    umount2("/run", MntFlags::MNT_DETACH)?;
    tmpfs("/run")?;
    fs::create_dir_all("/run/landfall")?;
    fs::copy("/proc/sys/kernel/random/boot_id", "/run/landfall/ramdisk")?;
    fs::write(COMMAND_LINE, format!("{command_line}\n"))?;
    fs::write(KERNEL_LOG, "")?;
    Ok(())
}

fn tmpfs(target: &str) -> Result<()> {
    let kind = Some(Path::new("tmpfs"));
    let size = Some(Path::new("size=64m,mode=0755"));
    mount(kind, target, kind, MsFlags::empty(), size)
        .with_context(|| format!("mounting tmpfs on {target}"))
}

fn bind(from: &str, to: &str) -> Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("mounting {from} on {to}"))
}

fn devices(disk: &Disk) -> Result<()> {
    let mode = Mode::from_bits_truncate(0o666);
    for (name, minor) in [
        ("null", 3),
        ("zero", 5),
        ("full", 7),
        ("random", 8),
        ("urandom", 9),
    ] {
        let path = Path::new("/dev").join(name);
        mknod(&path, SFlag::S_IFCHR, mode, makedev(1, minor))?;
    }
    let (major, minor) = disk.number;
    mknod("/dev/sda", SFlag::S_IFBLK, mode, makedev(major, minor)).context("making /dev/sda")
}

/// Shows the loop device as the disk `sda`, because the agent, like Ironic's, ignores
/// loop devices. All attributes are those of the loop device.
fn sysfs(disk: &Disk) -> Result<()> {
    let kind = Some(Path::new("sysfs"));
    mount(kind, "/sys", kind, MsFlags::empty(), NONE).context("mounting sysfs")?;
    let own = format!("/sys/devices/virtual/block/{}", disk.name);
    for folder in ["/sys/block", "/sys/class/block", "/sys/dev/block"] {
        tmpfs(folder)?;
    }
    // Hides the firmware's variables of the real machine.
    tmpfs("/sys/firmware")?;
    fs::create_dir("/sys/block/sda")?;
    bind(&own, "/sys/block/sda")?;
    symlink("/sys/block/sda", "/sys/class/block/sda")?;
    let (major, minor) = disk.number;
    symlink("/sys/block/sda", format!("/sys/dev/block/{major}:{minor}"))?;
    Ok(())
}

fn proc() -> Result<()> {
    fs::write(COMMAND_LINE, "")?;
    bind(COMMAND_LINE, "/proc/cmdline")?;
    // Without consoles the agent logs only to the kernel log. Files that affect the
    // whole real machine are hidden, too.
    for file in [
        "/proc/consoles",
        "/proc/sysrq-trigger",
        "/proc/sys/vm/drop_caches",
    ] {
        // A kernel may be built without this file.
        if !Path::new(file).exists() {
            continue;
        }
        let own = format!("/dev/.{}", file.rsplit('/').next().unwrap_or_default());
        fs::write(&own, "")?;
        bind(&own, file)?;
    }
    Ok(())
}
