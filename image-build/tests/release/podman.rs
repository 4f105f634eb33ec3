//! Runs containers of the release with podman, with storage of its own.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::{release, run};

/// podman with images in a temporary directory.
pub struct Podman(TempDir);

impl Podman {
    /// Loads an archive of the release, and checks that its image has the name `image`.
    pub fn with_image(archive: &str, image: &str) -> Self {
        let podman = Self(tempfile::tempdir().unwrap());
        let file = release().join("oci").join(archive);
        run(podman
            .command()
            .args(["load", "--quiet", "--input"])
            .arg(file));
        // The archive itself gives the image its name.
        run(podman.command().args(["image", "exists", image]));
        podman
    }

    /// The storage driver vfs works on any file system. The runtime is runc, because
    /// crun refuses a machine that has cgroups of both versions.
    pub fn command(&self) -> Command {
        let mut command = Command::new("podman");
        let place = |name: &str| self.0.path().join(name);
        command
            .arg("--root")
            .arg(place("root"))
            .arg("--runroot")
            .arg(place("run"))
            .arg("--tmpdir")
            .arg(place("tmp"))
            .args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"])
            .args(["--events-backend", "none", "--runtime", "runc"]);
        command
    }

    /// `podman run` without a network, and with the directory `host` mounted at `inside`
    /// in the container.
    pub fn run(&self, host: &Path, inside: &str) -> Command {
        self.run_on(host, inside, "none")
    }

    /// Like [`Self::run`], with the network `host` or `none`.
    pub fn run_on(&self, host: &Path, inside: &str, network: &str) -> Command {
        let mut command = self.command();
        command
            .args(["run", "--rm", "--network", network])
            // Limits that podman may set even if the tests run in a container: podman's
            // default limits are higher than those of that container.
            .args([
                "--ulimit",
                "nofile=1024:1024",
                "--ulimit",
                "nproc=1024:1024",
            ])
            .arg("--volume")
            .arg(format!("{}:{inside}", host.display()));
        command
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // Layers belong to root and to users of the container.
        let _ = self.command().args(["system", "reset", "--force"]).output();
    }
}
