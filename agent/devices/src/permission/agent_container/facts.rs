//! Reads the facts for the check of the agent container from /proc and from podman.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};

use super::CONTAINER_FILE;

/// The kinds of namespaces that the check compares.
pub(super) const NAMESPACES: [&str; 5] = ["pid", "user", "net", "ipc", "uts"];

/// The facts that the check uses. An empty text or `None` stands for a fact that could
/// not be read.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) pid: u32,
    /// `/proc/self/status` of the container.
    pub(super) status: String,
    /// `/proc/self/status` in the host's procfs: `NSpid` has one number for each PID
    /// namespace.
    pub(super) status_on_host: String,
    /// `/proc/1/status` of the host.
    pub(super) status_of_init: String,
    /// `/proc/self/mountinfo` of the container.
    pub(super) mounts: String,
    /// `/proc/1/mountinfo` of the host.
    pub(super) mounts_of_init: String,
    /// Whether `/proc` of the host is a procfs.
    pub(super) host_has_procfs: bool,
    /// The namespaces of the container: pid, user, net, ipc, uts.
    pub(super) namespaces: Vec<String>,
    /// The namespaces of the host's PID 1, in the same order.
    pub(super) namespaces_of_init: Vec<String>,
    /// Device and inode of the files that the unit mounts, in the container and on the
    /// host.
    pub(super) shared: Vec<Shared>,
    /// The content of [`CONTAINER_FILE`].
    pub(super) container_file: String,
    /// The environment variable `container`.
    pub(super) container_variable: String,
    /// Name, command line and cgroups of the parent, as the host sees it.
    pub(super) parent: Process,
}

#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) path: &'static str,
    pub(super) container: Option<(u64, u64)>,
    pub(super) host: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) command_line: String,
    pub(super) cgroup: String,
}

impl Facts {
    pub(super) fn read(host: &Path) -> Self {
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let own = Path::new("/proc/self");
        let (self_on_host, init) = (host.join("proc/self"), host.join("proc/1"));
        let namespaces = |process: &Path| {
            let link = |name: &&str| fs::read_link(process.join("ns").join(name));
            let name = |link: std::io::Result<std::path::PathBuf>| {
                link.map_or_else(|_| String::new(), |link| link.display().to_string())
            };
            NAMESPACES.iter().map(|kind| name(link(kind))).collect()
        };
        let parent = parent_of(&text(&self_on_host.join("stat")))
            .map(|pid| host.join("proc").join(pid.to_string()))
            .map(|process| Process {
                name: text(&process.join("comm")),
                command_line: text(&process.join("cmdline")),
                cgroup: text(&process.join("cgroup")),
            });
        Self {
            pid: std::process::id(),
            status: text(&own.join("status")),
            status_on_host: text(&self_on_host.join("status")),
            status_of_init: text(&init.join("status")),
            mounts: text(&own.join("mountinfo")),
            mounts_of_init: text(&init.join("mountinfo")),
            host_has_procfs: statfs(&host.join("proc"))
                .is_ok_and(|found| found.filesystem_type() == PROC_SUPER_MAGIC),
            namespaces: namespaces(own),
            namespaces_of_init: namespaces(&init),
            shared: ["dev", "sys", "run/udev", "run/dbus/system_bus_socket"]
                .map(|path| Shared::read(path, host))
                .into(),
            container_file: text(Path::new(CONTAINER_FILE)),
            container_variable: std::env::var("container").unwrap_or_default(),
            parent: parent.unwrap_or_default(),
        }
    }
}

impl Shared {
    fn read(path: &'static str, host: &Path) -> Self {
        let identity = |path: &Path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        Self {
            path,
            container: identity(&Path::new("/").join(path)),
            host: identity(&host.join(path)),
        }
    }
}

/// The value of a line `name:\tvalue` of a process's status (proc(5)).
pub(super) fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(found, _)| *found == name)
        .map_or("", |(_, value)| value.trim())
}

/// The value of a line `name="value"` or `name=value`.
pub(super) fn assignment<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    lines
        .find(|(found, _)| *found == name)
        .map_or("", |(_, value)| value.trim().trim_matches('"'))
}

/// The PID of the parent, from the fourth field of `stat` (proc(5)). The second field
/// is a name in parentheses, which may contain spaces and parentheses.
fn parent_of(stat: &str) -> Option<u32> {
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_with_an_odd_name() {
        assert_eq!(parent_of("2143 (a) b) S 2140 1 1"), Some(2140));
        assert_eq!(parent_of(""), None);
    }
}
