//! The disk: open, fetch, verify, decode, place, read back. One direction.
