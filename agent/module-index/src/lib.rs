//! The index of the ramdisk's kernel modules: the builder writes it, and init reads
//! it to find the modules that a modalias requests.
//!
//! `depmod` writes half a dozen files for modprobe, which is not in the ramdisk. Init
//! needs only one answer: "For the modalias `virtio:d00000001v00001AF4`, which modules
//! must be loaded, and in which order?" So the builder writes one file for this question
//! only:
//!
//! * [`IndexContent`] is this file as plain data, with its parser and its writer.
//! * [`Index`] is the same content, prepared for fast lookups.
//! * [`LeftOut`] is a second file: the drivers and the firmware that are not in the
//!   ramdisk, so that the agent can name what a device lacks.
//! * [`pattern`] is the matching rule of aliases. The builder also uses this rule for
//!   firmware names.
//!
//! Nothing here touches a file system or a kernel. Init loads the modules.

mod alias_table;
mod content;
mod index;
mod left_out;
mod load_order;
pub mod module_name;
pub mod pattern;
mod text_format;

pub use content::{BuiltIn, IndexContent, Module, ModuleId};
pub use index::{Index, Resolution};
pub use left_out::{
    DevicePattern, LEFT_OUT_NAME, LeftOut, LeftOutFirmware, LeftOutModule, MAX_LEFT_OUT_BYTES,
};
pub use text_format::{MAX_INDEX_BYTES, ParseError, WriteError, WrittenFile};

/// Name of the index file below `/lib/modules/<kernel release>/` in the ramdisk.
pub const INDEX_NAME: &str = "landfall.index";

/// The last file of the ramdisk's archive, relative to its root. If this file is missing,
/// the kernel has not unpacked the whole archive.
pub const COMPLETE_MARKER: &str = "etc/landfall/complete";
