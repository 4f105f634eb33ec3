//! Finds the programs and boot loaders that come from Debian packages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use landfall_initramfs::arch::Arch;

/// A file or program that must be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Path of a file, or name of a program in PATH.
    pub(crate) what: &'static str,
    /// The Debian package that provides it.
    pub(crate) package: &'static str,
}

pub(crate) const XORRISO: Part = Part {
    what: "xorriso",
    package: "xorriso",
};
pub(crate) const GRUB_MKIMAGE: Part = Part {
    what: "grub-mkimage",
    package: "grub-common",
};
pub(crate) const BIOS_MODULES: Part = Part {
    what: "/usr/lib/grub/i386-pc/normal.mod",
    package: "grub-pc-bin",
};
pub(crate) const BIOS_CD_BOOT: Part = Part {
    what: "/usr/lib/grub/i386-pc/cdboot.img",
    package: "grub-pc-bin",
};
pub(crate) const BIOS_HYBRID_MBR: Part = Part {
    what: "/usr/lib/grub/i386-pc/boot_hybrid.img",
    package: "grub-pc-bin",
};
/// iPXE for BIOS hosts whose network card does not contain iPXE.
pub(crate) const IPXE_BIOS: Part = Part {
    what: "/usr/lib/ipxe/undionly.kpxe",
    package: "ipxe",
};

/// The parts of a boot by UEFI firmware, and the names that they have on media.
#[derive(Debug)]
pub(crate) struct EfiParts {
    /// GRUB's name for the platform.
    pub(crate) grub_platform: &'static str,
    pub(crate) grub_modules: Part,
    /// The first boot loader: signed with Microsoft's third-party key, so firmware
    /// starts it without any setup.
    pub(crate) shim: Part,
    /// The signed GRUB for media: its built-in prefix is /boot/grub on the medium
    /// that it was loaded from.
    pub(crate) signed_grub_cd: Part,
    /// The signed GRUB for network boots: its built-in prefix is /grub on the TFTP
    /// server that it was loaded from.
    pub(crate) signed_grub_net: Part,
    /// The signed GRUB needs this module to fetch files by HTTP. It loads the module
    /// unless Secure Boot is on.
    pub(crate) grub_http_module: Part,
    /// systemd's EFI stub, which starts the kernel that is in the same file.
    pub(crate) stub: Part,
    /// The name of shim in a network tree.
    pub(crate) shim_name: &'static str,
    /// The name of the GRUB that shim loads, from the directory that shim itself was
    /// loaded from.
    pub(crate) grub_name: &'static str,
    /// The name of the loader for UEFI HTTP boot.
    pub(crate) http_loader_name: &'static str,
    /// Where GRUB looks for its module in a network tree.
    pub(crate) http_module_name: &'static str,
}

const X86_64: EfiParts = EfiParts {
    grub_platform: "x86_64-efi",
    grub_modules: Part {
        what: "/usr/lib/grub/x86_64-efi/normal.mod",
        package: "grub-efi-amd64-bin",
    },
    shim: Part {
        what: "/usr/lib/shim/shimx64.efi.signed",
        package: "shim-signed",
    },
    signed_grub_cd: Part {
        what: "/usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed",
        package: "grub-efi-amd64-signed",
    },
    signed_grub_net: Part {
        what: "/usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed",
        package: "grub-efi-amd64-signed",
    },
    grub_http_module: Part {
        what: "/usr/lib/grub/x86_64-efi/http.mod",
        package: "grub-efi-amd64-bin",
    },
    stub: Part {
        what: "/usr/lib/systemd/boot/efi/linuxx64.efi.stub",
        package: "systemd-boot-efi",
    },
    shim_name: "shimx64.efi",
    grub_name: "grubx64.efi",
    http_loader_name: "httpx64.efi",
    http_module_name: "grub/x86_64-efi/http.mod",
};

const AARCH64: EfiParts = EfiParts {
    grub_platform: "arm64-efi",
    grub_modules: Part {
        what: "/usr/lib/grub/arm64-efi/normal.mod",
        package: "grub-efi-arm64-bin",
    },
    shim: Part {
        what: "/usr/lib/shim/shimaa64.efi.signed",
        package: "shim-signed",
    },
    signed_grub_cd: Part {
        what: "/usr/lib/grub/arm64-efi-signed/gcdaa64.efi.signed",
        package: "grub-efi-arm64-signed",
    },
    signed_grub_net: Part {
        what: "/usr/lib/grub/arm64-efi-signed/grubnetaa64.efi.signed",
        package: "grub-efi-arm64-signed",
    },
    grub_http_module: Part {
        what: "/usr/lib/grub/arm64-efi/http.mod",
        package: "grub-efi-arm64-bin",
    },
    stub: Part {
        what: "/usr/lib/systemd/boot/efi/linuxaa64.efi.stub",
        package: "systemd-boot-efi",
    },
    shim_name: "shimaa64.efi",
    grub_name: "grubaa64.efi",
    http_loader_name: "httpaa64.efi",
    http_module_name: "grub/arm64-efi/http.mod",
};

/// Where the boot loaders of one architecture are: on this machine, or in a directory
/// into which their packages were unpacked. Packages of another architecture usually
/// cannot be installed next to those of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Loaders {
    pub(crate) arch: Arch,
    /// `None`: this machine.
    directory: Option<PathBuf>,
}

impl Loaders {
    pub(crate) fn new(arch: Arch, directory: Option<&Path>) -> Self {
        let directory = directory.map(Path::to_owned);
        Self { arch, directory }
    }

    pub(crate) fn efi(&self) -> &'static EfiParts {
        match self.arch {
            Arch::X86_64 => &X86_64,
            Arch::Aarch64 => &AARCH64,
        }
    }

    /// The path of a file, which need not exist, or the name of a program.
    pub(crate) fn path(&self, part: Part) -> PathBuf {
        match (&self.directory, part.what.strip_prefix('/')) {
            (Some(directory), Some(path)) => directory.join(path),
            _ => part.what.into(),
        }
    }

    /// The path of the part; `None` if it does not exist.
    pub(crate) fn find(&self, part: Part) -> Option<PathBuf> {
        let path = self.path(part);
        match part.what.starts_with('/') {
            true => path.is_file().then_some(path),
            false => part.find(),
        }
    }

    pub(crate) fn read(&self, part: Part) -> Result<Vec<u8>> {
        let path = self.path(part);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// The folder of GRUB's modules for a platform.
    pub(crate) fn grub_modules(&self, platform: &str) -> PathBuf {
        let root = self.directory.as_deref().unwrap_or(Path::new("/"));
        root.join("usr/lib/grub").join(platform)
    }

    /// The parts that do not exist.
    pub(crate) fn missing<'a>(&self, parts: &'a [Part]) -> Vec<&'a Part> {
        let missing = parts.iter().filter(|part| self.find(**part).is_none());
        missing.collect()
    }

    /// Fails if a part does not exist. `remedy` is the end of the error: what else the
    /// user can do.
    pub(crate) fn require(&self, parts: &[Part], remedy: &str) -> Result<()> {
        let missing = self.missing(parts);
        if missing.is_empty() {
            return Ok(());
        }
        let names = missing.iter().map(|part| self.path(**part));
        let names: Vec<String> = names.map(|path| path.display().to_string()).collect();
        let mut packages: Vec<&str> = missing.iter().map(|part| part.package).collect();
        packages.sort_unstable();
        packages.dedup();
        let packages = packages.join(" ");
        let is_of_this_machine = Arch::of_this_machine() == Some(self.arch);
        let advice = match is_of_this_machine && self.directory.is_none() {
            true => format!("apt-get install {packages}"),
            false => format!(
                "unpack the packages {packages} of {} into one directory (dpkg-deb -x), and give it with --loader-dir",
                self.arch.debian()
            ),
        };
        bail!("missing {} -- {advice}{remedy}", names.join(", "))
    }
}

impl Part {
    /// The path of the part on this machine; `None` if it is not installed.
    fn find(self) -> Option<PathBuf> {
        let path = Path::new(self.what);
        if path.is_absolute() {
            return path.is_file().then(|| path.to_owned());
        }
        // Also search the sbin directories: often only root has them in its PATH, and
        // the builder does not need root.
        let directories = std::env::var_os("PATH").unwrap_or_default();
        let all = std::env::split_paths(&directories).chain(["/usr/sbin".into(), "/sbin".into()]);
        all.map(|directory: PathBuf| directory.join(self.what))
            .find(|path| path.is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_missing_parts_are_reported_with_their_packages() {
        let sh = Part {
            what: "sh",
            package: "dash",
        };
        assert!(sh.find().unwrap().ends_with("sh"));
        let here = Loaders::new(Arch::of_this_machine().unwrap(), None);
        here.require(&[sh], "").unwrap();
        let parts = [
            Part {
                what: "no-such-program",
                package: "b",
            },
            sh,
            Part {
                what: "/no/such/file",
                package: "a",
            },
            Part {
                what: "/no/such/other",
                package: "b",
            },
        ];
        let error = { here.require(&parts, ", or do without") }
            .unwrap_err()
            .to_string();
        let expected = "missing no-such-program, /no/such/file, /no/such/other -- apt-get install a b, or do without";
        assert_eq!(error, expected);
    }

    #[test]
    fn parts_of_another_architecture_are_in_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let loaders = Loaders::new(Arch::Aarch64, Some(directory.path()));
        let efi = loaders.efi();
        let parts = [efi.shim, efi.signed_grub_cd];
        let error = loaders.require(&parts, "").unwrap_err().to_string();
        let shim = directory.path().join("usr/lib/shim/shimaa64.efi.signed");
        let start = format!("missing {}, ", shim.display());
        assert!(error.starts_with(&start), "{error}");
        let end = "unpack the packages grub-efi-arm64-signed shim-signed of arm64 into one directory (dpkg-deb -x), and give it with --loader-dir";
        assert!(error.ends_with(end), "{error}");
        fs::create_dir_all(shim.parent().unwrap()).unwrap();
        fs::write(&shim, "shim").unwrap();
        assert_eq!(loaders.find(efi.shim), Some(shim));
        assert_eq!(loaders.read(efi.shim).unwrap(), b"shim");
        assert_eq!(loaders.missing(&parts).len(), 1);
    }
}
