//! Parses boot parameters into typed values: the kernel command line, and the
//! configuration files and answers that add to it.
//!
//! [`CommandLine`] splits the text into tokens. Each of the other modules reads the
//! tokens of one vocabulary:
//!
//! - [`BootParams`]: the agent's own settings. Configuration files ([`ini_file`])
//!   and overrides at run time change them as well.
//! - [`NetArgs`]: dracut's network arguments, with the firmware's additions in
//!   [`FirmwareNics`].
//! - [`CoreosInst`]: an installation without a provisioning service.
//! - [`coreos_args`]: the arguments that CoreOS gets again on its first boot.
//!
//! The builder and the agent also share the type of a digest ([`digest`]).
//!
//! This crate reads no files. Invalid arguments and options never make a reader fail: the
//! reader adds a warning that names the effect. For [`CoreosInst`] the reader adds a
//! fault instead.

pub mod agent_args;
pub mod argument_value;
mod boolean;
mod cloned_mac;
pub mod cmdline;
pub mod coreos_args;
mod coreos_inst;
pub mod digest;
pub mod dracut_net;
pub mod firmware_nics;
mod given_image;
mod image_urls;
pub mod ini_file;
mod ip_prefix;
mod mac;
mod nearest_name;
pub mod openshift_agent;
mod plain_values;
mod setting;
mod shown;
pub mod syslog_server;
#[cfg(test)]
mod test_table;

pub use agent_args::BootParams;
pub use cloned_mac::ClonedMac;
pub use cmdline::{CommandLine, Token};
pub use coreos_inst::{CoreosInst, IgnitionPlace};
pub use dracut_net::NetArgs;
pub use firmware_nics::{FirmwareNic, FirmwareNics, FirmwareRecord};
pub use given_image::{Checksum, GivenImage, GivenImageError};
pub use ip_prefix::{IpPrefix, longest_prefix};
pub use mac::{BootInterface, InfinibandAddr, MacAddr};
pub use nearest_name::{nearest, nearest_within};
pub use setting::{Origin, Setting};
pub use shown::without_secrets;
