//! Which kernel module a modalias asks for: written by the ramdisk builder, read by init.
//!
//! `depmod` writes half a dozen files for a tool that is not in the ramdisk. Init
//! needs one answer, "this device says `virtio:d00000001v00001AF4`, what must be
//! loaded, in which order?", so the builder writes one file that holds what the
//! question needs and nothing else:
//!
//! * [`IndexContent`] is that file as plain data, with its parser and its writer;
//! * [`Index`] is the same content made fast to ask;
//! * [`pattern`] is the matching rule of aliases, the builder uses it for firmware names too.
//!
//! Nothing here touches a file system or a kernel. Loading is the agent's business.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that unwraps nothing has failed")
)]

mod alias_table;
mod content;
mod index;
mod load_order;
pub mod module_name;
pub mod pattern;
mod text_format;

pub use content::{BuiltIn, IndexContent, Module};
pub use index::{Index, ModuleId, Resolution};
pub use text_format::{
    FORMAT_VERSION, MAX_INDEX_BYTES, MAX_LINE_BYTES, MAX_MODULES, ParseError, WriteError,
};

/// The index's file name below `/lib/modules/<kernel release>/` of the ramdisk.
pub const INDEX_NAME: &str = "landfall.index";

/// The last file of the ramdisk's archive, below its root: where it is missing,
/// the kernel ran out of memory while unpacking.
pub const COMPLETE_MARKER: &str = "etc/landfall/complete";
