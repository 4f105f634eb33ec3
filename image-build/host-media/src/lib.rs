//! Makes one host's own version of a base ISO or of a base ramdisk.
//!
//! The version is a list of pieces: references to the bytes of the base, and the
//! few bytes that belong to the host. The base is neither rebuilt nor copied. The
//! same base and the same host always give the same bytes.
//!
//! * [`BaseIso`] and [`BaseRamdisk`] know where a host's bytes belong.
//! * [`HostVersion`] is what a host has in addition to its base: changes of the
//!   kernel arguments, and files.
//! * [`HostImage`] is the result.
//! * [`IpxeScript`] boots a kernel with a ramdisk.

mod archive;
mod base_iso;
mod base_ramdisk;
#[cfg(any(test, feature = "fixtures"))]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "for tests")]
pub mod fixtures;
mod host_image;
mod host_version;
mod ipxe_script;
mod kargs_edit;
pub mod kernel_args;

pub use archive::{ArchiveError, HostFile, files_in, put as put_file};
pub use base_iso::{BaseError, BaseIso};
pub use base_ramdisk::{ADDITION_RECORD, BaseRamdisk};
pub use host_image::{HostImage, Piece};
pub use host_version::{HostError, HostVersion};
pub use ipxe_script::IpxeScript;
pub use kargs_edit::{KargsEdit, KargsEditError};
