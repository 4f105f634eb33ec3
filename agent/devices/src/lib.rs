//! The devices of this machine: names of NICs and paths of disks, the graph of block
//! devices, the sets that disks are members of, the medium that the machine booted
//! from, drivers that failed, the identity of a disk, and the permission to write.

pub mod block_graph;
pub mod boot_medium;
pub mod devices_below;
pub mod devices_settled;
pub mod disk_paths;
pub mod disk_sets;
pub mod driver_faults;
pub mod identity;
pub mod interface_names;
pub mod nvme_transport;
pub mod permission;
pub mod whole_disk;
