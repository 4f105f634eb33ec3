//! The disk: open, fetch, verify, decode, place, read back. One direction.

pub mod aligned_buffer;
pub mod busy;
pub mod checksum_file;
pub mod decode;
pub mod digest;
pub mod fetch;
pub mod gpt;
pub mod image_head;
pub mod resume;
pub mod target;

#[cfg(test)]
mod tests;
