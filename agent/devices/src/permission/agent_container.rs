//! Recognises the one container that may write to disks: the agent container that
//! OpenShift starts in its live CoreOS.
//!
//! image-customization-controller writes the unit `ironic-agent.service`
//! (`pkg/ignition/service_config.go`). It runs podman with `--privileged`, the host's
//! network, IPC and UTS namespaces, and the host's root at [`HOST`], but with a PID
//! namespace of the container's own. So the rule of `live_system.rs` that systemd has
//! started this process cannot hold: podman passes no `INVOCATION_ID`. All conditions
//! here must hold instead, and then those of `live_system.rs` for the host.
//!
//! A fact that cannot be read does not hold.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};

use super::FIRST_PID_NAMESPACE;
use super::live_system::{self, Mount};

/// Where the unit mounts the root of the host.
pub(super) const HOST: &str = "/mnt/coreos";

/// Podman writes this file into each of its containers (`containerenv` in its
/// libpod). With `--privileged` it has content.
const CONTAINER_FILE: &str = "/run/.containerenv";

/// The first user namespace (`PROC_USER_INIT_INO` in the kernel's
/// include/linux/proc_ns.h).
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

/// The container's name and that of the unit.
const NAME: &str = "ironic-agent";

/// What the check looks at. An empty text or `None` is what could not be read.
#[derive(Debug, Clone, Default)]
struct Facts {
    pid: u32,
    /// `/proc/self/status` of the container.
    status: String,
    /// `/proc/self/status` in the host's procfs: `NSpid` has one number for each PID
    /// namespace.
    status_on_host: String,
    /// `/proc/1/status` of the host.
    status_of_init: String,
    /// `/proc/self/mountinfo` of the container.
    mounts: String,
    /// `/proc/1/mountinfo` of the host.
    mounts_of_init: String,
    /// Whether `/proc` of the host is a procfs.
    host_has_procfs: bool,
    /// The namespaces of the container: pid, user, net, ipc, uts.
    namespaces: Vec<String>,
    /// Those of the host's PID 1, in the same order.
    namespaces_of_init: Vec<String>,
    /// Device and inode of what the unit mounts, in the container and on the host.
    shared: Vec<Shared>,
    /// The content of [`CONTAINER_FILE`].
    container_file: String,
    /// The environment variable `container`.
    container_variable: String,
    /// Name, command line and cgroups of the parent, as the host sees it.
    parent: Process,
}

#[derive(Debug, Clone)]
struct Shared {
    path: &'static str,
    container: Option<(u64, u64)>,
    host: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Default)]
struct Process {
    name: String,
    command_line: String,
    cgroup: String,
}

const NAMESPACES: [&str; 5] = ["pid", "user", "net", "ipc", "uts"];

/// Whether this looks like the container, so that a failed check is worth a message.
pub(super) fn may_be() -> bool {
    Path::new(CONTAINER_FILE).exists() && Path::new(HOST).is_dir()
}

/// Checks that this process is the agent container, on a host that is a live system.
/// `marked` is true if the host has this boot's marker: then its mounts are not
/// checked again, because the agent itself mounts disks.
///
/// # Errors
/// Names the condition that does not hold.
pub(super) fn check(marked: bool) -> Result<(), String> {
    let host = Path::new(HOST);
    let facts = Facts::read(host);
    facts.check_container()?;
    if !host.join("run/systemd/system").is_dir() {
        return Err("expected systemd on the host, found no /run/systemd/system".to_owned());
    }
    live_system::check_marker(host, false)?;
    if !marked {
        let name_of = live_system::block_device_names(host);
        live_system::check_mounts(&facts.mounts_of_init, &name_of)?;
        live_system::check_mounts(&facts.mounts, &name_of)?;
    }
    Ok(())
}

impl Facts {
    fn read(host: &Path) -> Self {
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

    fn check_container(&self) -> Result<(), String> {
        self.check_pid_namespace()?;
        self.check_host_root()?;
        self.check_other_namespaces()?;
        self.check_privileges()?;
        self.check_shared()?;
        self.check_podman()
    }

    /// The unit uses no `--pid=host`. `podman exec` and a container in the container
    /// are not PID 1 of a namespace directly below the host's.
    fn check_pid_namespace(&self) -> Result<(), String> {
        let own = self.namespaces.first().map_or("", String::as_str);
        if own.is_empty() || own == FIRST_PID_NAMESPACE {
            return Err(format!(
                "expected a PID namespace of the container's own, found {own:?}"
            ));
        }
        if self.pid != 1 {
            return Err(format!("expected to be PID 1, found {}", self.pid));
        }
        let pids = field(&self.status_on_host, "NSpid").split_whitespace();
        match pids.count() {
            2 => Ok(()),
            found => Err(format!(
                "expected to be in two PID namespaces, found {found}"
            )),
        }
    }

    /// What is mounted at [`HOST`] must be the root of the machine's PID 1.
    fn check_host_root(&self) -> Result<(), String> {
        if !self.host_has_procfs || self.init_namespace("pid") != FIRST_PID_NAMESPACE {
            return Err(format!("expected the host's procfs at {HOST}/proc"));
        }
        let bound = last_mount(&self.mounts, HOST);
        let root = last_mount(&self.mounts_of_init, "/");
        match (bound, root) {
            (Some(bound), Some(root)) if bound == root => Ok(()),
            (bound, root) => Err(format!(
                "expected the root of the host's PID 1 at {HOST} ({root:?}), found {bound:?}"
            )),
        }
    }

    fn check_other_namespaces(&self) -> Result<(), String> {
        for (kind, own) in NAMESPACES.iter().zip(&self.namespaces).skip(1) {
            let hosts = self.init_namespace(kind);
            if own.is_empty() || own != hosts {
                return Err(format!(
                    "expected the host's {kind} namespace {hosts:?}, found {own:?}"
                ));
            }
        }
        match self.init_namespace("user") {
            FIRST_USER_NAMESPACE => Ok(()),
            found => Err(format!(
                "expected the user namespace {FIRST_USER_NAMESPACE}, found {found:?}"
            )),
        }
    }

    fn init_namespace(&self, kind: &str) -> &str {
        let mut namespaces = NAMESPACES.iter().zip(&self.namespaces_of_init);
        namespaces
            .find(|(name, _)| **name == kind)
            .map_or("", |(_, namespace)| namespace)
    }

    /// `--privileged`: all capabilities of the host's PID 1, no filter of system calls.
    fn check_privileges(&self) -> Result<(), String> {
        let (own, hosts) = (
            field(&self.status, "CapEff"),
            field(&self.status_of_init, "CapBnd"),
        );
        if own.is_empty() || own != hosts {
            return Err(format!(
                "expected the capabilities {hosts:?} (--privileged), found {own:?}"
            ));
        }
        for name in ["Seccomp", "NoNewPrivs"] {
            let found = field(&self.status, name);
            if found != "0" {
                return Err(format!("expected {name} 0 (--privileged), found {found:?}"));
            }
        }
        Ok(())
    }

    fn check_shared(&self) -> Result<(), String> {
        let other = self
            .shared
            .iter()
            .find(|shared| shared.container.is_none() || shared.container != shared.host);
        match other {
            None if !self.shared.is_empty() => Ok(()),
            None => Err("expected what the unit mounts, found nothing".to_owned()),
            Some(shared) => Err(format!(
                "expected the host's /{0} at /{0}, found something else",
                shared.path
            )),
        }
    }

    /// podman has started this, and the unit has started podman.
    fn check_podman(&self) -> Result<(), String> {
        if self.container_variable != "podman" {
            return Err(format!(
                "expected the environment variable container=podman, found {:?}",
                self.container_variable
            ));
        }
        let engine = assignment(&self.container_file, "engine");
        let said = [
            ("engine", engine.starts_with("podman-")),
            (
                "rootless",
                assignment(&self.container_file, "rootless") == "0",
            ),
            ("name", assignment(&self.container_file, "name") == NAME),
            (
                "graphRootMounted",
                assignment(&self.container_file, "graphRootMounted") == "1",
            ),
        ];
        if let Some((name, _)) = said.iter().find(|(_, holds)| !holds) {
            return Err(format!(
                "expected {name} of OpenShift's agent container in {CONTAINER_FILE}, found {:?}",
                assignment(&self.container_file, name)
            ));
        }
        let id = assignment(&self.container_file, "id");
        let mut words = self.parent.command_line.split('\0');
        if self.parent.name.trim_end() != "conmon" || id.is_empty() || !words.any(|word| word == id)
        {
            return Err(format!(
                "expected conmon of the container {id:?} as the parent, found {:?}",
                self.parent.name.trim_end()
            ));
        }
        // In a cgroup namespace the path is relative, so only its end is known.
        let service = format!("/{NAME}.service");
        let mut groups = self.parent.cgroup.lines();
        match groups.any(|group| group.ends_with(&service)) {
            true => Ok(()),
            false => Err(format!(
                "expected conmon in {NAME}.service, found {:?}",
                self.parent.cgroup.trim_end()
            )),
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
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(found, _)| *found == name)
        .map_or("", |(_, value)| value.trim())
}

/// The value of a line `name="value"` or `name=value`.
fn assignment<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    lines
        .find(|(found, _)| *found == name)
        .map_or("", |(_, value)| value.trim().trim_matches('"'))
}

/// The fourth field of `stat` (proc(5)). The second is a name in parentheses, which
/// may contain spaces and parentheses.
fn parent_of(stat: &str) -> Option<u32> {
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

/// Device number and root of the last mount at `place`.
fn last_mount<'a>(mountinfo: &'a str, place: &str) -> Option<(&'a str, &'a str)> {
    let mut mounts = mountinfo.lines().rev().filter_map(Mount::parse);
    let mount = mounts.find(|mount| mount.place == place)?;
    Some((mount.number, mount.root))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a container has that the unit's command line started. Recorded with podman
    /// 4.3.1, but for the mounts of the live system.
    fn container() -> Facts {
        let namespaces = |pid: &str| {
            ["net:[4026531840]", "ipc:[4026531839]", "uts:[4026531838]"]
                .iter()
                .fold(
                    vec![pid.to_owned(), FIRST_USER_NAMESPACE.to_owned()],
                    |mut all, one| {
                        all.push((*one).to_owned());
                        all
                    },
                )
        };
        let same = |path| Shared {
            path,
            container: Some((5, 1)),
            host: Some((5, 1)),
        };
        Facts {
            pid: 1,
            status: "Name:\tlandfall-agent\nNSpid:\t1\nCapEff:\t000001ffffffffff\nNoNewPrivs:\t0\nSeccomp:\t0\n".to_owned(),
            status_on_host: "NSpid:\t2143\t1\n".to_owned(),
            status_of_init: "CapBnd:\t000001ffffffffff\n".to_owned(),
            mounts: "90 80 0:44 / / rw - overlay overlay rw\n91 90 0:31 / /mnt/coreos rw - overlay overlay rw\n".to_owned(),
            mounts_of_init: "1 1 0:2 / / rw - rootfs rootfs rw\n26 1 0:31 / / rw - overlay overlay rw\n".to_owned(),
            host_has_procfs: true,
            namespaces: namespaces("pid:[4026532310]"),
            namespaces_of_init: namespaces(FIRST_PID_NAMESPACE),
            shared: vec![same("dev"), same("sys")],
            container_file: "engine=\"podman-4.3.1\"\nname=\"ironic-agent\"\nid=\"5e1f\"\nimage=\"landfall\"\nimageid=\"77\"\nrootless=0\ngraphRootMounted=1\n".to_owned(),
            container_variable: "podman".to_owned(),
            parent: Process {
                name: "conmon\n".to_owned(),
                command_line: "/usr/bin/conmon\0--api-version\x001\0-c\x005e1f\0-n\0ironic-agent\0".to_owned(),
                cgroup: "0::/system.slice/ironic-agent.service\n".to_owned(),
            },
        }
    }

    #[test]
    fn openshifts_container() {
        assert_eq!(container().check_container(), Ok(()));
        let mut private_cgroups = container();
        private_cgroups.parent.cgroup = "0::/../../system.slice/ironic-agent.service\n".to_owned();
        assert_eq!(private_cgroups.check_container(), Ok(()));
    }

    /// Each row changes one fact of the container.
    #[test]
    fn every_condition_counts() {
        type Change = fn(&mut Facts);
        let rows: [(&str, Change, &str); 21] = [
            (
                "--pid=host",
                |f| f.namespaces[0] = FIRST_PID_NAMESPACE.to_owned(),
                "PID namespace",
            ),
            ("no procfs", |f| f.namespaces[0].clear(), "PID namespace"),
            ("podman exec", |f| f.pid = 7, "PID 1"),
            (
                "a container in the container",
                |f| f.status_on_host = "NSpid:\t9\t4\t1\n".to_owned(),
                "two PID namespaces",
            ),
            (
                "a folder as the host's proc",
                |f| f.host_has_procfs = false,
                "the host's procfs",
            ),
            (
                "an outer container's proc",
                |f| f.namespaces_of_init[0] = "pid:[4026532001]".to_owned(),
                "the host's procfs",
            ),
            (
                "a folder at /mnt/coreos",
                |f| f.mounts = "90 80 0:44 / / rw - overlay overlay rw\n".to_owned(),
                "the root of the host's PID 1",
            ),
            (
                "another root at /mnt/coreos",
                |f| f.mounts = f.mounts.replace("0:31 /", "0:31 /other"),
                "the root of the host's PID 1",
            ),
            (
                "--userns",
                |f| f.namespaces[1] = "user:[4026532009]".to_owned(),
                "user namespace",
            ),
            (
                "rootless",
                |f| {
                    f.namespaces[1] = "user:[4026532009]".to_owned();
                    f.namespaces_of_init[1] = "user:[4026532009]".to_owned();
                },
                "user namespace",
            ),
            (
                "no --network host",
                |f| f.namespaces[2] = "net:[4026532100]".to_owned(),
                "net namespace",
            ),
            (
                "no --ipc=host",
                |f| f.namespaces[3] = "ipc:[4026532100]".to_owned(),
                "ipc namespace",
            ),
            (
                "no --uts=host",
                |f| f.namespaces[4] = "uts:[4026532100]".to_owned(),
                "uts namespace",
            ),
            (
                "no --privileged",
                |f| f.status = f.status.replace("000001ffffffffff", "00000000800405fb"),
                "capabilities",
            ),
            (
                "a system call filter",
                |f| f.status = f.status.replace("Seccomp:\t0", "Seccomp:\t2"),
                "Seccomp 0",
            ),
            (
                "another /dev",
                |f| f.shared[0].container = Some((9, 1)),
                "/dev",
            ),
            (
                "docker",
                |f| f.container_variable = "docker".to_owned(),
                "container=podman",
            ),
            (
                "another name",
                |f| f.container_file = f.container_file.replace("ironic-agent", "toolbox"),
                "expected name",
            ),
            (
                "rootless podman",
                |f| f.container_file = f.container_file.replace("rootless=0", "rootless=1"),
                "expected rootless",
            ),
            (
                "another parent",
                |f| f.parent.name = "bash\n".to_owned(),
                "conmon",
            ),
            (
                "from a shell",
                |f| f.parent.cgroup = "0::/user.slice/session-1.scope\n".to_owned(),
                "ironic-agent.service",
            ),
        ];
        for (what, change, expected) in rows {
            let mut facts = container();
            change(&mut facts);
            let error = facts.check_container().unwrap_err();
            assert!(error.contains(expected), "{what}: {error}");
        }
        assert!(Facts::default().check_container().is_err());
    }

    #[test]
    fn parent_with_an_odd_name() {
        assert_eq!(parent_of("2143 (a) b) S 2140 1 1"), Some(2140));
        assert_eq!(parent_of(""), None);
    }
}
