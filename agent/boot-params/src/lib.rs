//! What a boot is told, as typed values: the kernel command line, which the
//! image builder writes, and the files and answers that say more.
//!
//! [`CommandLine`] splits the text into tokens; the other modules each read the
//! tokens of one vocabulary out of it: the agent's own settings
//! ([`BootParams`]), dracut's network arguments ([`NetArgs`], with what the
//! firmware adds to them as [`FirmwareNics`]), an installation without any
//! service ([`CoreosInst`]) and what CoreOS wants to see again on its first boot
//! ([`coreos_args`]). [`ArgumentLine`] is the way back to text. Configuration files ([`ini_file`]) and what is said at
//! run time go into [`BootParams`] as well. Nothing here reads a file, and
//! nothing that can be said is an error: what cannot be used becomes a warning
//! and its default.

pub mod agent_args;
pub mod argument_line;
pub mod argument_value;
pub mod boolean;
mod cloned_mac;
pub mod cmdline;
pub mod coreos_args;
pub mod coreos_inst;
pub mod dracut_net;
mod edit_distance;
pub mod firmware_nics;
pub mod image_urls;
pub mod ini_file;
pub mod mac;
pub mod setting;
pub mod shown;

pub use agent_args::BootParams;
pub use argument_line::{ArgumentError, ArgumentLine};
pub use cloned_mac::ClonedMac;
pub use cmdline::{CommandLine, Token};
pub use coreos_inst::{CoreosInst, IgnitionPlace};
pub use dracut_net::NetArgs;
pub use edit_distance::edit_distance;
pub use firmware_nics::{FirmwareNic, FirmwareNics, FirmwareRecord};
pub use mac::{BootInterface, InfinibandAddr, MacAddr};
pub use setting::{Origin, Setting};
pub use shown::without_secrets;
