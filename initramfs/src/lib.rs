//! Builds the discovery ramdisk: newc archive, kernel modules, firmware, agent.
