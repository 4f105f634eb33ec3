//! Folders with fixed paths, for this test alone.
//!
//! libvirtd as root takes no other paths than those it was compiled with. A
//! mount namespace gives this thread, and all it starts, folders of the test in
//! their place.

use std::path::Path;

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::lab::Lab;

/// Where libvirt's configuration, sockets and states are.
const LIBVIRT: [&str; 5] = [
    "/etc/libvirt",
    "/run/libvirt",
    "/var/lib/libvirt",
    "/var/log/libvirt",
    "/var/cache/libvirt",
];

/// QEMU as root, without the parts of a host that a test or a container lacks:
/// security modules, cgroups, device namespaces, and virtlogd for the console.
const QEMU_CONF: &str = r#"user = "root"
group = "root"
dynamic_ownership = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"#;

/// Gives the calling thread its own folders.
pub(super) fn enter(lab: &Lab) -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("making a mount namespace")?;
    // Without this the mounts below would be seen by the whole machine.
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
    Ok(())
}
