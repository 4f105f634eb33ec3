//! The areas of a new medium: `landfall_media_formats::areas` with the builder's
//! kernel arguments.

pub(crate) use landfall_media_formats::areas::{
    Areas, DESCRIPTION as DESCRIPTION_PATH, EMBED as EMBED_PATH, IGNITION as IGNITION_PATH,
    KARGS as KARGS_PATH, KARGS_OF_FORMAT_1 as OLD_KARGS_PATH,
};

use crate::kernel_args::{KernelArgs, MAX_BYTES};

/// The areas of a medium that is built with these kernel arguments, with `ramdisk` bytes
/// for each of the further ramdisks. The area for kernel arguments has room for
/// [`MAX_BYTES`], so no other program can write a longer line, which the kernel would cut
/// off.
pub(crate) fn areas(arguments: &KernelArgs, ramdisk: usize) -> Areas {
    Areas::new(arguments.as_str(), MAX_BYTES, ramdisk as u64)
}
