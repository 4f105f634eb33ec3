//! The processor architectures that a ramdisk can be built for, and the names that depend
//! on the architecture. In the builder, every difference between the architectures is a
//! function here, or a `match` on [`Arch`].

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The architecture of the hosts. The machine that builds may have another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    #[default]
    X86_64,
    Aarch64,
}

/// The text names no architecture that a ramdisk can be built for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected x86_64 or aarch64, found `{found}`")]
pub struct UnknownArch {
    found: String,
}

impl FromStr for Arch {
    type Err = UnknownArch;

    /// Accepts the names of the kernel and those of Debian.
    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        let is_named = |arch: &Self| [arch.name(), arch.debian()].contains(&text);
        let found = || UnknownArch {
            found: text.escape_debug().to_string(),
        };
        Self::ALL.into_iter().find(is_named).ok_or_else(found)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Arch {
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The name that `uname -m`, Ironic and CoreOS use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The name in Debian's packages; also that of Kubernetes and of container images.
    #[must_use]
    pub fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// The name in a sentence.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::X86_64 => "x86-64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The architecture of the build machine; `None` if the builder cannot build a
    /// ramdisk for it.
    #[must_use]
    pub fn of_this_machine() -> Option<Self> {
        std::env::consts::ARCH.parse().ok()
    }

    /// Whether hosts can have BIOS firmware. All others have UEFI.
    #[must_use]
    pub fn has_bios(self) -> bool {
        self == Self::X86_64
    }

    /// The kernel's name of the serial port that most hosts have: the 16550 of a PC, or
    /// the PL011 that Arm's "Server Base System Architecture" requires.
    #[must_use]
    pub fn serial_port(self) -> &'static str {
        match self {
            Self::X86_64 => "ttyS0",
            Self::Aarch64 => "ttyAMA0",
        }
    }

    /// The end of the names of EFI programs: `x64` in `shimx64.efi`.
    #[must_use]
    pub fn efi_suffix(self) -> &'static str {
        match self {
            Self::X86_64 => "x64",
            Self::Aarch64 => "aa64",
        }
    }

    /// The file that UEFI firmware starts on removable media (UEFI 2.10, 3.5.1.1).
    #[must_use]
    pub fn removable_loader(self) -> &'static str {
        match self {
            Self::X86_64 => "EFI/BOOT/BOOTX64.EFI",
            Self::Aarch64 => "EFI/BOOT/BOOTAA64.EFI",
        }
    }

    /// The architecture whose machine type in the header of an EFI program is `machine`
    /// (`IMAGE_FILE_MACHINE_AMD64`, `IMAGE_FILE_MACHINE_ARM64`).
    pub(crate) fn of_efi_program(machine: u16) -> Option<Self> {
        match machine {
            0x8664 => Some(Self::X86_64),
            0xaa64 => Some(Self::Aarch64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_are_known() {
        for arch in Arch::ALL {
            for name in [arch.name(), arch.debian()] {
                assert_eq!(name.parse(), Ok(arch));
            }
            let json = serde_json::to_string(&arch).unwrap();
            assert_eq!(json, format!("\"{arch}\""));
        }
        let error = "riscv64\n".parse::<Arch>().unwrap_err().to_string();
        assert_eq!(error, "expected x86_64 or aarch64, found `riscv64\\n`");
    }
}
