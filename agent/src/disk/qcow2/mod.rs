//! A qcow2 file written to a disk while it is downloaded, without a copy of it
//! in memory or on disk.
//!
//! The file goes by from its start to its end, in pieces of a MiB. What the
//! tables tell of bytes that are here or still to come is used at once; qemu-img
//! writes a table before the data, or at most a cluster after the first of it,
//! so that one pass is all it takes. What is told of bytes that are gone is
//! noted down, and those are fetched again: by Range, or by reading on where a
//! server knows none.
//!
//! * Nothing that is fetched a second time can differ: of each piece that went
//!   by without being used up there is a fingerprint. Where there is none, the
//!   whole file is read again and its digest compared.
//! * Compressed clusters are unpacked on several threads, half a MiB of the disk
//!   at a time.
//! * Memory does not grow with the disk inside: pieces in the window (3 MiB; 5
//!   for clusters of 2 MiB), batches of clusters (12 MiB), and a bounded number of extents (at most 12 MiB).
//!   Two tables of extents is what a file of qemu-img takes; 16 bytes for each
//!   MiB of the file come on top if all of it is out of order, 16 MiB a TiB.
//! * The first MiB of the disk inside is put together before anything else is
//!   written: it tells whether the image belongs on this disk.

pub mod assembly;
pub mod batch;
pub mod extents;
pub mod header;
pub mod tables;
pub mod unpack;
pub mod unpack_threads;
pub mod window;
