//! Recognises the one container that may write to disks: the agent container that
//! OpenShift starts in its live CoreOS.
//!
//! image-customization-controller writes the unit `ironic-agent.service`
//! (`pkg/ignition/service_config.go`). The unit runs podman with `--privileged`, the
//! host's network, IPC and UTS namespaces, and the host's root at [`HOST`], but with a
//! separate PID namespace. Conditions 1 and 2 of `live_system.rs` cannot hold here:
//! podman passes no `INVOCATION_ID`, and this is a container. Instead all conditions of
//! this module must hold, and the host must meet conditions 3 to 5.
//!
//! If a fact cannot be read, its condition does not hold.

mod facts;

use std::path::Path;

use facts::{Facts, NAMESPACES, assignment, field};

use super::FIRST_PID_NAMESPACE;
use super::live_system::{self, COREOS_MARKER, Mount, NoLiveSystem};

/// The directory where the unit mounts the root of the host.
pub const HOST: &str = "/mnt/coreos";

/// Podman writes this file into each of its containers (`containerenv` in its
/// libpod). With `--privileged` it has content.
const CONTAINER_FILE: &str = "/run/.containerenv";

/// The first user namespace (`PROC_USER_INIT_INO` in the kernel's
/// include/linux/proc_ns.h).
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

/// The container's name and that of the unit.
const NAME: &str = "ironic-agent";

/// The condition that does not hold, so that the agent writes to no disk.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAgentContainer {
    /// A condition of the container. Holds its text.
    #[error("{0}")]
    Container(String),
    /// The host of the container does not run systemd, so it is not OpenShift's live system. The
    /// agent writes to no disk.
    #[error("expected systemd on the host, found no /run/systemd/system")]
    NoSystemd,
    /// The agent container runs on a host that is no CoreOS live system, so its disks may hold
    /// data. Boot OpenShift's agent ISO.
    #[error("expected a CoreOS live system as the host, found no /{COREOS_MARKER} there")]
    NoCoreos,
    /// A condition of the mounts, those of the host or those of the container.
    #[error(transparent)]
    Mounts(#[from] NoLiveSystem),
}

/// Whether this looks like the agent container. Only in this case does
/// [`super::Home::check`] check the container, and report the condition that does not
/// hold.
pub(super) fn may_be() -> bool {
    Path::new(CONTAINER_FILE).exists() && Path::new(HOST).is_dir()
}

/// Checks that this process is the agent container, on a host that is a live system.
/// `marked` is true if the host has this boot's marker. In that case the function does
/// not check the host's mounts again, because the agent itself mounts disks.
///
/// # Errors
/// Names the condition that does not hold.
pub(super) fn check(marked: bool) -> Result<(), NoAgentContainer> {
    let host = Path::new(HOST);
    let facts = Facts::read(host);
    facts
        .check_container()
        .map_err(NoAgentContainer::Container)?;
    facts.check_host(host, marked)
}

impl Facts {
    /// The host must be a CoreOS live system. `run --live-system` has no effect in the
    /// container, because the unit starts the agent without options.
    fn check_host(&self, host: &Path, marked: bool) -> Result<(), NoAgentContainer> {
        if !host.join("run/systemd/system").is_dir() {
            return Err(NoAgentContainer::NoSystemd);
        }
        if !live_system::is_coreos(host) {
            return Err(NoAgentContainer::NoCoreos);
        }
        if !marked {
            let name_of = live_system::block_device_names(host);
            live_system::check_mounts(&self.mounts_of_init, &name_of)?;
            live_system::check_mounts(&self.mounts, &name_of)?;
        }
        Ok(())
    }

    fn check_container(&self) -> Result<(), String> {
        self.check_pid_namespace()?;
        self.check_host_root()?;
        self.check_other_namespaces()?;
        self.check_privileges()?;
        self.check_shared()?;
        self.check_podman()
    }

    /// This process must be PID 1 of a namespace directly below the host's namespace,
    /// because the unit does not use `--pid=host`. A program that `podman exec` starts
    /// is not PID 1, and a container inside the container has a deeper namespace.
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

    /// Checks for `--privileged`: the process has all capabilities of the host's PID 1,
    /// no filter of system calls, and `no_new_privs` is not set.
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

    /// podman must have started this process, and the unit must have started podman.
    fn check_podman(&self) -> Result<(), String> {
        if self.container_variable != "podman" {
            return Err(format!(
                "expected the environment variable container=podman, found {:?}",
                self.container_variable
            ));
        }
        let engine = assignment(&self.container_file, "engine");
        let conditions = [
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
        if let Some((name, _)) = conditions.iter().find(|(_, holds)| !holds) {
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
                "expected conmon, the parent of the agent's container, in the cgroup of {NAME}.service, found {:?}",
                self.parent.cgroup.trim_end()
            )),
        }
    }
}

/// Device number and root of the last mount at `place`.
fn last_mount<'a>(mountinfo: &'a str, place: &str) -> Option<(&'a str, &'a str)> {
    let mut mounts = mountinfo.lines().rev().filter_map(Mount::parse);
    let mount = mounts.find(|mount| mount.place == place)?;
    Some((mount.number, mount.root))
}

#[cfg(test)]
mod tests;
