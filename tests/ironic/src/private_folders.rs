//! Gives a test private files and folders under fixed paths.
//!
//! As root, libvirtd uses only the paths compiled into it. A mount namespace gives
//! this thread, and all programs that it starts, the test's own folders at these
//! paths.

use std::path::Path;

use anyhow::{Context, Result};
use landfall_tests::lab::Lab;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Folders of libvirt's configuration, sockets and state.
const LIBVIRT: [&str; 5] = [
    "/etc/libvirt",
    "/run/libvirt",
    "/var/lib/libvirt",
    "/var/log/libvirt",
    "/var/cache/libvirt",
];

/// Runs QEMU as root, without features that a test machine or a container may lack:
/// security modules, cgroups, device namespaces, and virtlogd for the console.
const QEMU_CONF: &str = r#"user = "root"
group = "root"
dynamic_ownership = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"#;

/// libvirtd does not start without the QEMU account compiled into it, although
/// `qemu.conf` names another one. In Debian the account comes with
/// libvirt-daemon-system, which would also start its services on this machine.
const QEMU_ACCOUNT: [(&str, &str); 2] = [
    (
        "/etc/passwd",
        "libvirt-qemu:x:64055:64055:Libvirt Qemu:/var/lib/libvirt:/usr/sbin/nologin\n",
    ),
    ("/etc/group", "libvirt-qemu:x:64055:\n"),
];

/// Gives the calling thread its private files and folders.
pub(super) fn enter(lab: &Lab) -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("making a mount namespace")?;
    // Make the mounts private: otherwise the mounts below would be visible to the
    // whole machine.
    let none = None::<&Path>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("making the mounts private")?;
    for path in LIBVIRT {
        let own = lab.path("libvirt").join(path.trim_start_matches('/'));
        std::fs::create_dir_all(&own)?;
        std::fs::create_dir_all(path).with_context(|| format!("making {path}"))?;
        mount(Some(&own), path, none, MsFlags::MS_BIND, none)
            .with_context(|| format!("mounting {} on {path}", own.display()))?;
    }
    std::fs::write("/etc/libvirt/qemu.conf", QEMU_CONF)?;
    for (path, entry) in QEMU_ACCOUNT {
        add_entry(lab, Path::new(path), entry)?;
    }
    Ok(())
}

/// Adds an entry to an account database, unless the machine already has an entry
/// with this name. The changed copy is visible only in this mount namespace.
fn add_entry(lab: &Lab, database: &Path, entry: &str) -> Result<()> {
    let mut text = std::fs::read_to_string(database)
        .with_context(|| format!("reading {}", database.display()))?;
    let name = entry.split_inclusive(':').next().unwrap_or(entry);
    if text.lines().any(|line| line.starts_with(name)) {
        return Ok(());
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(entry);
    let own = lab.path(&format!(
        "accounts-{}",
        database.file_name().unwrap_or_default().display()
    ));
    std::fs::write(&own, text).with_context(|| format!("writing {}", own.display()))?;
    mount(
        Some(&own),
        database,
        None::<&Path>,
        MsFlags::MS_BIND,
        None::<&Path>,
    )
    .with_context(|| format!("mounting {} on {}", own.display(), database.display()))
}
