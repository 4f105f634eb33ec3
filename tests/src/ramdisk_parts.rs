//! The kernels and the module sets from which the builder makes the ramdisks of the
//! tests.

use anyhow::Result;

use crate::lab::Lab;
use crate::{artifacts, program};

/// The kernel of a ramdisk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Debian's kernel for clouds. It lacks AHCI, for example.
    Cloud,
    /// Debian's generic kernel, which has drivers for real hardware.
    Generic,
    /// The cloud kernel in packages like those of RHEL, with modules in .ko.xz and
    /// .ko.zst, which the kernel cannot unpack.
    Rpm,
}

impl Kernel {
    /// The builder's options for this kernel. For [`Kernel::Rpm`] rpmbuild packs the
    /// kernel first, which takes a minute.
    pub async fn options(self, lab: &Lab) -> Result<Vec<String>> {
        let package = match self {
            Self::Cloud => artifacts::kernel_deb()?,
            Self::Generic => artifacts::generic_kernel_deb()?,
            Self::Rpm => return rpm_options(lab).await,
        };
        Ok(vec![
            "--kernel-deb".to_owned(),
            package.display().to_string(),
        ])
    }
}

async fn rpm_options(lab: &Lab) -> Result<Vec<String>> {
    let packages = lab.path("rpms");
    let script = artifacts::kernel_rpms_script().display().to_string();
    let deb = artifacts::kernel_deb()?.display().to_string();
    let to = packages.display().to_string();
    program::run(&script, &["--kernel-deb", &deb, "-o", &to]).await?;
    let mut options = vec!["--kernel-rpm".to_owned()];
    for part in ["core", "modules-core", "modules"] {
        let package = packages.join(format!("kernel-{part}.rpm"));
        options.push(package.display().to_string());
    }
    Ok(options)
}

/// The drivers in a ramdisk: a built-in module set of the builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModuleSet {
    /// For virtual machines, the default.
    Vm,
    /// For servers.
    Server,
}

impl ModuleSet {
    /// The builder's options for this set.
    #[must_use]
    pub fn options(self) -> Vec<String> {
        match self {
            Self::Vm => Vec::new(),
            // The cards that QEMU emulates work without firmware, except for an i82551.
            Self::Server => ["--module-set", "server", "--allow-missing-firmware"]
                .map(str::to_owned)
                .into(),
        }
    }
}
