//! Estimates the least memory of a host on which a ramdisk boots and installs.
//!
//! ```text
//! floor     = (kernel + other + larger of the two) x 64/63
//! unpacking = archive + 2 x files
//! running   = files + drivers + agent
//! ```
//!
//! * *archive*: the boot loader puts the compressed ramdisk into memory, and the kernel
//!   frees it only when it has unpacked everything (`populate_rootfs` in
//!   init/initramfs.c). Until then, the archive and the unpacked files are in memory at
//!   the same time.
//! * *2 x files*: the unpacked files are in a tmpfs, which may use half of the memory
//!   that the kernel manages (`shmem_default_max_blocks` in mm/shmem.c). The archive is
//!   not part of that memory. A file takes whole pages.
//! * *kernel*: code and data of the running kernel, from the header of its image.
//! * *64/63*: the kernel describes each page of 4 KiB with 64 bytes (`struct page`).
//!
//! The other terms are constants; the reasons for their values are below. Cards with
//! large buffers, such as those for 100 Gbit/s, need more memory for each of their
//! queues.

use serde::Serialize;

const MIB: u64 = 1 << 20;
/// In bytes: the most memory that a file takes in addition to its content.
const PAGE: u64 = 4096;

/// In bytes: the size of a kernel whose header does not state its size. Distribution
/// kernels have 40 to 64 MiB.
const USUAL_KERNEL: u64 = 64 * MIB;
/// In bytes: the memory for page tables, slabs, stacks and per-CPU data of the kernel,
/// and the memory that the firmware reserves.
const OTHER: u64 = 24 * MIB;
/// In bytes: the memory for loaded drivers and their buffers. The largest drivers have 4
/// MB, and a host loads a tenth of the set.
const DRIVERS: u64 = 16 * MIB;
/// In bytes: the memory of the agent while it writes an image: 17 to 30 MiB according to
/// docs/benchmarks.md. It needs more only for xz in blocks, with one thread for each
/// processor.
const AGENT: u64 = 40 * MIB;

/// The sizes from which the floor is computed, in bytes except for `files`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Of the running kernel; `None` if its header does not state it.
    pub(crate) kernel: Option<u32>,
    /// Of the compressed ramdisk.
    pub(crate) archive: u64,
    /// Of the unpacked ramdisk.
    pub(crate) unpacked: u64,
    /// The number of files and directories in the ramdisk.
    pub(crate) files: u64,
}

/// The least memory of a host, in MiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MemoryFloor {
    /// The memory with which the kernel can unpack the whole ramdisk.
    pub boot_mib: u64,
    /// The memory with which the agent can also write an image.
    pub deployment_mib: u64,
}

impl MemoryFloor {
    pub(crate) fn of(sizes: Sizes) -> Self {
        let kernel = sizes.kernel.map_or(USUAL_KERNEL, u64::from) + OTHER;
        let files = sizes.unpacked + sizes.files * PAGE;
        let unpacking = kernel + sizes.archive + 2 * files;
        let running = kernel + files + DRIVERS + AGENT;
        Self {
            boot_mib: with_page_descriptors(unpacking),
            deployment_mib: with_page_descriptors(unpacking.max(running)),
        }
    }
}

/// The memory in MiB that a host needs so that this many bytes remain after the
/// kernel's page descriptors.
fn with_page_descriptors(bytes: u64) -> u64 {
    (bytes * 64).div_ceil(63 * MIB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(archive: u64, unpacked: u64, files: u64) -> Sizes {
        Sizes {
            kernel: None,
            archive,
            unpacked,
            files,
        }
    }

    /// The sizes are those of docs/real-servers.md, for Debian 12.
    #[test]
    fn whole_deployments_fit_into_the_targets() {
        let vm = MemoryFloor::of(sizes(6_500_000, 23_000_000, 100));
        assert!(vm.deployment_mib <= 192, "{vm:?}");
        let server = MemoryFloor::of(sizes(21_400_000, 101_400_000, 530));
        assert!(server.deployment_mib <= 320, "{server:?}");
        // tests/e2e: too_little_memory boots the set server with 160 MiB.
        assert!(server.boot_mib > 160, "{server:?}");
    }

    #[test]
    fn the_larger_of_both_phases_counts() {
        // Nothing to unpack: kernel 64, other 24, drivers 16, agent 40.
        let empty = MemoryFloor::of(sizes(0, 0, 0));
        let expected = MemoryFloor {
            boot_mib: 90,
            deployment_mib: 147,
        };
        assert_eq!(empty, expected);
        // Kernel 40, other 24, archive 20, twice 100 and 512 pages.
        let large = MemoryFloor::of(Sizes {
            kernel: Some(40 << 20),
            ..sizes(20 * MIB, 100 * MIB, 512)
        });
        let expected = MemoryFloor {
            boot_mib: 293,
            deployment_mib: 293,
        };
        assert_eq!(large, expected);
    }

    proptest! {
        #[test]
        fn more_of_anything_never_takes_less(
            archive in 0u64..1 << 32,
            unpacked in 0u64..1 << 34,
            files in 0u64..100_000,
            more in 0u64..1 << 30,
        ) {
            let floor = MemoryFloor::of(sizes(archive, unpacked, files));
            prop_assert!(floor.boot_mib <= floor.deployment_mib);
            for larger in [
                sizes(archive + more, unpacked, files),
                sizes(archive, unpacked + more, files),
                sizes(archive, unpacked, files + more / PAGE),
            ] {
                let larger = MemoryFloor::of(larger);
                prop_assert!(floor.boot_mib <= larger.boot_mib);
                prop_assert!(floor.deployment_mib <= larger.deployment_mib);
            }
        }
    }
}
