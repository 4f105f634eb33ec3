//! Defines the command-line arguments that describe the host of `make demo` and
//! `make lab`.

use clap::{Args, ValueEnum};

use crate::vm::Firmware;

/// The choices for the host.
#[derive(Debug, Clone, Copy, Args)]
pub struct HostArguments {
    /// How the ramdisk gets into the host: virtual media or network.
    #[arg(long, value_enum, default_value = "iso")]
    pub boot: BootMedium,
    /// The host's firmware.
    #[arg(long, value_enum, default_value = "uefi")]
    pub firmware: Firmware,
}

/// How the ramdisk gets into a host.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum BootMedium {
    /// As a CD.
    Iso,
    /// Over the network.
    Pxe,
}
