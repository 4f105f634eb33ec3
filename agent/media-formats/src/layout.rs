//! Where kernel and ramdisk are on Landfall's ISO.

pub const KERNEL: &str = "boot/vmlinuz";
pub const RAMDISK: &str = "boot/initrd.img";
