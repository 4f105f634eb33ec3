//! Changes files of an ext4 file system in an image, without a mount and without
//! privileges.
//!
//! The crate is made for the boot partition of a finished image: it replaces the
//! content of small files, creates files and directories, and gives them the SELinux
//! label of their directory. It is no driver: it deletes nothing, and knows neither
//! block maps nor inline data.
//!
//! * It opens only a clean file system all of whose features it knows, and checks
//!   every checksum of what it reads.
//! * All changes stay in memory. The caller writes [`FileSystem::changes`] after the
//!   last one, so an error leaves the image as it was.
//! * It does not use the journal, which protects a mounted file system. The caller
//!   changes a copy.
//! * The same changes give the same bytes: new times are the time at which the file
//!   system was last written.

mod allocation;
mod attributes;
mod blocks;
mod change;
mod checksums;
mod directory;
mod error;
mod extents;
mod fields;
mod file_system;
mod groups;
mod inode;
mod superblock;

pub use blocks::Storage;
pub use error::{Error, Result};
pub use file_system::FileSystem;
pub use inode::Kind;
