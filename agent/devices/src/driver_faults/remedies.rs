//! What an operator can do if a device does not work.

/// The driver requested a file that is not in the ramdisk.
pub(super) const ADD_FIRMWARE: &str = "build the ramdisk with --firmware debian";
/// The kernel has the driver, but the ramdisk does not.
pub(super) const ADD_MODULE: &str =
    "build the ramdisk with --module-set server, or with a file that names the module";
/// The kernel has no driver.
pub(super) const OTHER_KERNEL: &str =
    "use Debian's complete kernel instead of its cloud kernel, or a newer kernel";
/// Several devices have no driver, and the reasons may differ.
pub(super) const ADD_MODULE_OR_OTHER_KERNEL: &str = "build the ramdisk with --module-set server and Debian's complete kernel (not its cloud kernel), or with a newer kernel";
/// The module did not accept the device.
pub(super) const READ_MESSAGES_OF_MODULE: &str =
    "look for messages of the module in the kernel log";
/// The driver accepted the device, but created no disk or NIC for it.
pub(super) const READ_MESSAGES_OF_DRIVER: &str =
    "look for messages of its driver in the kernel log";
/// The bus does not show a device.
pub(super) const CHECK_FIRMWARE_SETUP: &str = "check that the firmware setup does not disable it";
/// The controller has a driver, but shows no disk.
pub(super) const CHECK_DISKS: &str = "check the cables, the backplane, the controller's mode in the firmware setup (AHCI or HBA instead of RAID or VMD), and for a SAN its zones and LUNs";
