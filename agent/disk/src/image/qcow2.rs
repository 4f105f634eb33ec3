//! Writes the disk inside a qcow2 file to a disk during the download, without a
//! copy of the file in memory or on disk.
//!
//! The agent reads the file from its start to its end in pieces of 1 MiB. If a table
//! refers to bytes that are in memory or still to come, the agent uses them directly.
//! qemu-img writes each table before its data, or at most one cluster after the start
//! of its data, so one pass is enough for files of qemu-img. If a table refers to bytes
//! that are no longer in memory, the agent notes their place and fetches them again: by
//! Range requests, or by reading the file once more from its start if the file is packed
//! or the server does not support Range.
//!
//! * Data that is fetched a second time cannot differ unnoticed: the agent keeps a
//!   fingerprint of each piece that it did not use completely. If it needs a piece
//!   without a fingerprint, it reads the whole file again and compares its digest.
//! * Several threads unpack compressed clusters, half a MiB of the disk at a time.
//! * Memory use does not grow with the size of the disk inside. It consists of the
//!   pieces in the window (3 MiB; 5 MiB for clusters of 2 MiB), batches of clusters (12
//!   MiB), and a bounded number of extents (at most 12 MiB; a file written by qemu-img
//!   needs the extents of two tables). A file that is completely out of order also
//!   needs a fingerprint of 24 bytes for each MiB of the file: 24 MiB per TiB.
//! * The agent assembles the first MiB of the disk inside before it writes anything,
//!   because that MiB shows whether the image belongs on this disk.

pub mod assembly;
pub mod batch;
pub mod extents;
pub mod header;
pub mod tables;
pub mod unpack;
pub mod unpack_threads;
pub mod window;
