//! Writes the formats that a release is published in: tar archives, a Debian
//! package, OCI images and artefacts, checksum files and a CycloneDX SBOM.
//!
//! The same input gives the same bytes. Names are sorted, owners are root, every
//! time is the time that the caller gives, and nothing depends on the number of
//! processors. Nothing here needs root, a network or a daemon.

pub mod checksum_file;
pub mod crate_list;
pub mod cyclonedx;
pub mod debian_archive;
pub mod debian_package;
pub mod debian_root;
pub mod flavor_branch;
pub mod oci;
pub mod package_url;
pub mod tar_tree;
pub mod timestamp;
