//! An image on its way to the disk: decode and hash, check its head, write, read
//! back, and make it visible.

pub mod decode;
pub mod ends;
pub mod format_policy;
pub mod image_head;
pub mod pipeline;
pub mod proven_image;
pub mod qcow2;
pub mod read_back;
pub mod sparse_write;
pub mod write_image;
