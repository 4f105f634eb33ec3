//! Distinguishes the clients of a NIC.

/// A NIC's index, and the number of one of its clients.
pub(super) type ClientTag = (u32, u64);
