//! Finds the programs and boot loaders that come from Debian packages.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

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
pub(crate) const EFI_MODULES: Part = Part {
    what: "/usr/lib/grub/x86_64-efi/normal.mod",
    package: "grub-efi-amd64-bin",
};
/// The first boot loader: signed with Microsoft's third-party key, so firmware
/// starts it without any setup.
pub(crate) const SHIM: Part = Part {
    what: "/usr/lib/shim/shimx64.efi.signed",
    package: "shim-signed",
};
/// The signed GRUB for media: its built-in prefix is /boot/grub on the medium
/// that it was loaded from.
pub(crate) const SIGNED_GRUB_CD: Part = Part {
    what: "/usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed",
    package: "grub-efi-amd64-signed",
};
/// The signed GRUB for network boots: its built-in prefix is /grub on the TFTP
/// server that it was loaded from.
pub(crate) const SIGNED_GRUB_NET: Part = Part {
    what: "/usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed",
    package: "grub-efi-amd64-signed",
};
/// The signed GRUB needs this module to fetch files by HTTP. It loads the module
/// unless Secure Boot is on.
pub(crate) const GRUB_HTTP_MODULE: Part = Part {
    what: "/usr/lib/grub/x86_64-efi/http.mod",
    package: "grub-efi-amd64-bin",
};
/// systemd's EFI stub, which starts the kernel that is in the same file.
pub(crate) const EFI_STUB: Part = Part {
    what: "/usr/lib/systemd/boot/efi/linuxx64.efi.stub",
    package: "systemd-boot-efi",
};
/// iPXE for BIOS hosts whose network card does not contain iPXE.
pub(crate) const IPXE_BIOS: Part = Part {
    what: "/usr/lib/ipxe/undionly.kpxe",
    package: "ipxe",
};

impl Part {
    /// The path of the part; `None` if it is not installed.
    pub(crate) fn find(self) -> Option<PathBuf> {
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

/// The parts that are not installed.
pub(crate) fn missing(parts: &[Part]) -> Vec<&Part> {
    parts.iter().filter(|part| part.find().is_none()).collect()
}

/// Fails if a part is not installed. `remedy` is the end of the error: what
/// else the user can do.
pub(crate) fn require(parts: &[Part], remedy: &str) -> Result<()> {
    let missing = missing(parts);
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|part| part.what).collect();
    let mut packages: Vec<&str> = missing.iter().map(|part| part.package).collect();
    packages.sort_unstable();
    packages.dedup();
    bail!(
        "missing {}: apt-get install {}{remedy}",
        names.join(", "),
        packages.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_at_once_with_its_packages() {
        let sh = Part {
            what: "sh",
            package: "dash",
        };
        assert!(sh.find().unwrap().ends_with("sh"));
        require(&[sh], "").unwrap();
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
        let error = require(&parts, ", or do without").unwrap_err().to_string();
        let expected = "missing no-such-program, /no/such/file, /no/such/other: apt-get install a b, or do without";
        assert_eq!(error, expected);
    }
}
