//! Checks that the ramdisk works with a kernel's configuration.

use std::collections::HashMap;
use std::path::Path;

use crate::arch::Arch;
use crate::compress::Compression;
use crate::path_error::{PathError, read_bounded};

/// In bytes: the size limit of a config. A Debian config is 250 kB.
const MAX_CONFIG_BYTES: u64 = 8 << 20;

/// A kernel's `.config`.
#[derive(Debug, Clone, Default)]
pub struct KernelConfig {
    values: HashMap<String, String>,
}

/// An option that the kernel lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether the ramdisk cannot work at all.
    pub fatal: bool,
    /// The option and what goes wrong without it.
    pub text: String,
}

/// What this ramdisk needs in addition to the options that every ramdisk needs.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    pub arch: Arch,
    pub compression: Compression,
    /// Whether any module is a `.ko.xz` file.
    pub xz_modules: bool,
    /// Whether any module is a `.ko.zst` file.
    pub zstd_modules: bool,
}

impl KernelConfig {
    pub fn read(path: &Path) -> Result<Self, PathError> {
        let bytes = read_bounded(path, MAX_CONFIG_BYTES)?;
        Ok(Self::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// Parses a config. Ignores lines that set nothing.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let values = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("CONFIG_")?.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Self { values }
    }

    /// Whether an option is set to `y`.
    #[must_use]
    pub fn is_built_in(&self, option: &str) -> bool {
        self.values.get(option).is_some_and(|value| value == "y")
    }

    /// Returns every missing option, the fatal ones first.
    #[must_use]
    pub fn check(&self, needs: Needs) -> Vec<Finding> {
        let mut required = vec![
            ("BLK_DEV_INITRD", "the kernel cannot use a ramdisk"),
            ("BINFMT_ELF", "init cannot be started"),
            ("DEVTMPFS", "/dev stays empty"),
            ("PROC_FS", "/proc stays empty"),
            ("SYSFS", "/sys stays empty"),
            ("TMPFS", "/run cannot be mounted"),
            ("NET", "there is no network"),
            ("INET", "there is no IPv4"),
        ];
        if matches!(needs.compression, Compression::Zstd { .. }) {
            required.push((
                "RD_ZSTD",
                "the kernel cannot unpack a zstd ramdisk (use --compress none)",
            ));
        }
        let serial_console = match needs.arch {
            Arch::X86_64 => "SERIAL_8250_CONSOLE",
            Arch::Aarch64 => "SERIAL_AMBA_PL011_CONSOLE",
        };
        let mut wanted = vec![
            ("MODULES", "no driver can be loaded"),
            ("EFI_STUB", "UEFI hosts cannot start it"),
            (serial_console, "nothing is shown on a serial console"),
            ("VT_CONSOLE", "nothing is shown on a screen"),
            ("IPV6", "there is no IPv6 unless it is a module"),
            ("PACKET", "there is no DHCP unless it is a module"),
            (
                "RD_GZIP",
                "the kernel ignores what image-customization-controller adds",
            ),
            ("RD_XZ", "the kernel ignores what coreos-installer adds"),
        ];
        let unpacks = "the kernel cannot unpack such modules, so init must unpack them";
        if needs.xz_modules || needs.zstd_modules {
            wanted.push(("MODULE_DECOMPRESS", unpacks));
        }
        // A kernel unpacks only the one format that it was built for.
        if needs.xz_modules {
            wanted.push(("MODULE_COMPRESS_XZ", unpacks));
        }
        if needs.zstd_modules {
            wanted.push(("MODULE_COMPRESS_ZSTD", unpacks));
        }
        let findings = |options: Vec<(&str, &str)>, fatal| {
            options
                .into_iter()
                .filter(|(option, _)| !self.is_built_in(option))
                .map(move |(option, loss)| Finding {
                    fatal,
                    text: format!("CONFIG_{option}=y is not set: {loss}"),
                })
                .collect::<Vec<_>>()
        };
        let mut all = findings(required, true);
        all.extend(findings(wanted, false));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Linux\nCONFIG_BLK_DEV_INITRD=y\nCONFIG_BINFMT_ELF=y\nCONFIG_DEVTMPFS=y\nCONFIG_PROC_FS=y\n\
        CONFIG_SYSFS=y\nCONFIG_TMPFS=y\nCONFIG_NET=y\nCONFIG_INET=y\nCONFIG_RD_ZSTD=y\nCONFIG_MODULES=y\nCONFIG_EFI_STUB=y\n\
        CONFIG_RD_GZIP=y\nCONFIG_RD_XZ=y\n\
        CONFIG_SERIAL_8250_CONSOLE=y\nCONFIG_VT_CONSOLE=y\nCONFIG_IPV6=y\nCONFIG_PACKET=y\nCONFIG_LOCALVERSION=\"=y\"\n";
    const PLAIN: Needs = Needs {
        arch: Arch::X86_64,
        compression: Compression::Zstd { level: 3 },
        xz_modules: false,
        zstd_modules: false,
    };

    fn check(text: &str, needs: Needs) -> Vec<(bool, String)> {
        KernelConfig::parse(text)
            .check(needs)
            .into_iter()
            .map(|finding| (finding.fatal, finding.text))
            .collect()
    }

    #[test]
    fn a_good_kernel_has_no_findings() {
        assert_eq!(check(GOOD, PLAIN), []);
        let compressed = format!("{GOOD}CONFIG_MODULE_DECOMPRESS=y\nCONFIG_MODULE_COMPRESS_XZ=y\n");
        assert_eq!(
            check(
                &compressed,
                Needs {
                    xz_modules: true,
                    ..PLAIN
                }
            ),
            []
        );
    }

    #[test]
    fn missing_kernel_options_are_reported() {
        let without_zstd = GOOD.replace("CONFIG_RD_ZSTD=y", "# CONFIG_RD_ZSTD is not set");
        let text = "CONFIG_RD_ZSTD=y is not set: the kernel cannot unpack a zstd ramdisk (use --compress none)";
        assert_eq!(check(&without_zstd, PLAIN), [(true, text.to_owned())]);
        assert_eq!(
            check(
                &without_zstd,
                Needs {
                    compression: Compression::None,
                    ..PLAIN
                }
            ),
            []
        );

        let module = GOOD.replace("CONFIG_EFI_STUB=y", "CONFIG_EFI_STUB=m");
        assert_eq!(
            check(&module, PLAIN),
            [(
                false,
                "CONFIG_EFI_STUB=y is not set: UEFI hosts cannot start it".to_owned()
            )]
        );

        let arm = Needs {
            arch: Arch::Aarch64,
            ..PLAIN
        };
        let text =
            "CONFIG_SERIAL_AMBA_PL011_CONSOLE=y is not set: nothing is shown on a serial console";
        assert_eq!(check(GOOD, arm), [(false, text.to_owned())]);

        let packed = check(
            GOOD,
            Needs {
                zstd_modules: true,
                ..PLAIN
            },
        );
        assert_eq!(packed.len(), 2);
        assert!(packed.iter().all(|(fatal, _)| !fatal));
    }
}
