//! Builds the discovery ramdisk: newc archive, kernel modules, firmware, agent.
//!
//! [`build`] combines the results of the other modules. The library needs neither root
//! nor a network. It runs neither `depmod` nor `cpio` nor a compressor. Only
//! [`kernel_source`] and [`firmware`] run other programs: those of dpkg and apt. It reads
//! RPM packages without other programs.

pub mod agent_binary;
pub mod arch;
pub mod build;
pub mod compress;
pub mod digest_writer;
mod elf_section;
pub mod file_tree;
pub mod firmware;
pub mod free_space;
mod kernel_config;
pub mod kernel_image;
pub mod kernel_modules;
pub mod kernel_source;
pub mod memory_floor;
pub mod modinfo;
pub mod module_set;
pub mod newc;
pub mod output_file;
pub mod parallel;
pub mod path_error;
pub mod rescue_layer;
pub mod rpm;
mod segment_cache;
mod segments;
pub mod temporary;
pub mod unified_image;

pub use elf_section::ElfError;
