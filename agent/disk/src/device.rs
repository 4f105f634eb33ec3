//! A disk as a block device: opens it exclusively, reports what uses it, and
//! removes volumes that are built on it.

pub mod aligned_buffer;
pub mod busy;
pub mod device_lock;
pub mod device_mapper;
pub mod flush;
pub(crate) mod paths;
pub mod slow_answer;
pub mod target;
pub mod written_extents;
pub mod zeros;
