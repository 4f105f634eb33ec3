//! The disk: open, fetch, verify, decode, place, read back. One direction.

pub mod aligned_buffer;
pub mod busy;
pub mod target;
